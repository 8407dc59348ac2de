"""The options of the format "catchment-table": a topic read as a table of the last record of each key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import AtomicType, DataType, StructType

from catchment.client.errors import SettingsError
from catchment.spark.formats.format_options import OPTION_NAMES
from catchment.spark.options.connection import Connection
from catchment.spark.options.fields import OptionFields
from catchment.spark.options.mistakes import OptionMistakes, misspelt_names

TABLE_OPTIONS: Final = ("topic", "tableKey", "checkpointLocation")


@dataclass(frozen=True)
class TableOptions:
    """Which topic, what its key is, and with which stream it is joined."""

    connection: Connection
    topic: str
    table_key: tuple[str, ...]
    """Fields of the value that are the key, besides that of the records; none if that is all."""
    checkpoint: str | None
    """That of the stream whose batches say how far the table is read."""

    @classmethod
    def read(cls, options: Mapping[str, str]) -> TableOptions:
        """SettingsError tells all that is wrong at once."""
        mistakes = OptionMistakes(misspelt_names(options, (*TABLE_OPTIONS, *OPTION_NAMES)))
        fields = OptionFields(options, mistakes)
        topic = (fields.text("topic") or "").strip()
        if not topic or "," in topic:
            mistakes.add("a table is read from one topic", 'Add .option("topic", "…").')
        read = cls(
            mistakes.tried(lambda: Connection.read(options), Connection("")),
            topic,
            fields.names("tableKey"),
            fields.text("checkpointLocation"),
        )
        mistakes.raise_any()
        return read


def check_table_key(table_key: tuple[str, ...], value: DataType) -> None:
    """SettingsError unless these are fields of the value that can be compared."""
    fields = {field.name: field.dataType for field in value} if isinstance(value, StructType) else {}
    for name in table_key:
        if name not in fields:
            listed = f"Its fields are {', '.join(fields)}." if fields else "Set valueFormat, so that it has fields."
            raise SettingsError(f"tableKey names {name}, which is no field of the value", listed)
        if not isinstance(fields[name], AtomicType):
            raise SettingsError(
                f"tableKey names {name}, which is of type {fields[name].simpleString()}",
                "Choose fields that are text, numbers, times or the like.",
            )
