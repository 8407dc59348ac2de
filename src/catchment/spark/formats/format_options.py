"""The options of one typed column: `keyFormat`, `keySchema` … for the key, `valueFormat`, `valueSchema` … for the value."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from catchment.client.errors import SettingsError

COLUMNS: Final = ("key", "value")
FORMATS: Final = ("avro", "csv", "json", "protobuf", "string", "text")
SINGLE_OBJECT: Final = "single-object"
FRAMINGS: Final = ("none", "confluent", SINGLE_OBJECT)

_OF_A_COLUMN: Final = (
    "Format",
    "Schema",
    "SchemaFile",
    "EarlierSchemas",
    "Message",
    "Subject",
    "SchemaVersion",
    "Framing",
)
_OF_THE_QUERY: Final = (
    "schemaRegistry",
    "schemaRegistry.user",
    "schemaRegistry.password",
    "schemaRegistry.token",
    "onDecodeError",
    "includeBytes",
    "csvDelimiter",
    "csvQuote",
    "emitDefaultValues",
)
OPTION_NAMES: Final = (*(column + name for column in COLUMNS for name in _OF_A_COLUMN), *_OF_THE_QUERY)
"""Every option that concerns formats; Spark hands them over in any case."""


@dataclass(frozen=True)
class FormatOptions:
    """What was asked for one column, checked as far as it can be without a schema."""

    column: str
    format: str | None
    schema: str | None
    message: str | None
    subject: str | None
    version: str
    framing: str | None
    emit_default_values: bool
    csv_delimiter: str = ","
    csv_quote: str = '"'
    earlier_schemas: str | None = None
    """With single-object framing, a JSON array of the other schemas that records may have been written with."""

    @classmethod
    def read(cls, options: Mapping[str, str], column: str) -> FormatOptions:
        """Those of the column named `key` or `value`, out of all options of a query."""
        known = {name.lower(): value for name, value in options.items()}

        def given(name: str) -> str | None:
            return known.get((column + name).lower())

        format_name = _one_of(f"{column}Format", given("Format"), FORMATS)
        if format_name is None:
            for name in _OF_A_COLUMN:
                if given(name) is not None:
                    raise SettingsError(
                        f"the option {column}{name} has no meaning without {column}Format",
                        f"Set {column}Format to one of {', '.join(FORMATS)}, or leave {column}{name} out.",
                    )
        return cls(
            column=column,
            format=format_name,
            schema=_schema_text(column, given("Schema"), given("SchemaFile")),
            message=given("Message"),
            subject=given("Subject"),
            version=given("SchemaVersion") or "latest",
            framing=_one_of(f"{column}Framing", given("Framing"), FRAMINGS),
            emit_default_values=_one_of("emitDefaultValues", known.get("emitdefaultvalues"), ("true", "false"))
            == "true",
            csv_delimiter=known.get("csvdelimiter", ",").replace("\\t", "\t"),
            csv_quote=known.get("csvquote", '"'),
            earlier_schemas=given("EarlierSchemas"),
        )


def on_decode_error(options: Mapping[str, str]) -> str:
    """`fail` or `null`: what a record that does not decode does to its query."""
    known = {name.lower(): value for name, value in options.items()}
    return _one_of("onDecodeError", known.get("ondecodeerror"), ("fail", "null")) or "fail"


def includes_bytes(options: Mapping[str, str]) -> bool:
    """Whether the bytes of every record stand beside what they decode to."""
    known = {name.lower(): value for name, value in options.items()}
    return _one_of("includeBytes", known.get("includebytes"), ("true", "false")) == "true"


def _one_of(name: str, value: str | None, allowed: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    if value.lower() not in allowed:
        raise SettingsError(f"the option {name} is {value!r}", f"Set it to one of {', '.join(allowed)}.")
    return value.lower()


def _schema_text(column: str, text: str | None, path: str | None) -> str | None:
    """A schema's text. A compiled Protobuf schema in a file is binary, and becomes base64 as it would be given inline."""
    if path is None:
        return text
    if text is not None:
        raise SettingsError(f"both {column}Schema and {column}SchemaFile are set", "Leave one of them out.")
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(
            f"cannot read the file {path} of {column}SchemaFile: {error.strerror}",
            "Give the path of a file that the driver can read.",
        ) from None
    return _as_text(content)


def _as_text(content: bytes) -> str:
    """The text of a schema file, or the base64 of a compiled one, which has control characters at least."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return b64encode(content).decode()
    return b64encode(content).decode() if min(content, default=9) < 9 else text
