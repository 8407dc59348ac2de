"""The source's options for a declared topic: how its records become columns."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from catchment.pipelines.declaration.addresses import with_variables
from catchment.pipelines.declaration.specification import TopicIn

_SCHEMA_FILES: Final = frozenset({".ddl", ".json", ".avsc", ".proto", ".desc", ".pb"})


def decoding_options(topic: TopicIn, folder: Path) -> dict[str, str]:
    """The options that decode records; those that locate them are not part of it."""
    options: dict[str, str] = {"valueFormat": "string" if topic.format == "text" else topic.format}
    if topic.schema_ is not None:
        if is_file(topic.schema_):
            options["valueSchemaFile"] = str(folder / topic.schema_)
        else:
            options["valueSchema"] = topic.schema_
    if topic.registry is not None:
        options["schemaRegistry"] = with_variables(topic.registry)
    if topic.message is not None:
        options["valueMessage"] = topic.message
    if topic.delimiter is not None:
        options["csvDelimiter"] = topic.delimiter
    return options


def is_file(schema: str) -> bool:
    """Whether a schema is the name of a schema file: one word with a suffix of such files."""
    return len(schema.split()) == 1 and Path(schema).suffix in _SCHEMA_FILES
