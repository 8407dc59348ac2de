"""Values that the sink encodes itself: a column of structs becomes records in Avro, in the task that writes them.

Behaviour
    With `valueFormat` avro the column `value` is a struct. A row where it is null is written with the bytes of the column
    `valueBytes`, if there is one, so that rows and records that are kept as they came go through one write.
    With `valueFraming` single-object each record begins with the fingerprint of its schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow
import pyarrow.compute
from pyspark.sql.types import BinaryType, StructField, StructType

from catchment.client.errors import SettingsError
from catchment.spark.formats.format_options import SINGLE_OBJECT
from catchment.spark.formats.rows.schema import avro_schema_of
from catchment.spark.options.fields import OptionFields
from catchment.spark.options.mistakes import OptionMistakes

if TYPE_CHECKING:
    from catchment.spark.formats.rows.encoding import RowEncoder

AVRO: Final = "avro"
VALUE: Final = "value"
VALUE_BYTES: Final = "valueBytes"


@dataclass(frozen=True)
class ValueEncoding:
    """How the values of rows are written: as they are, or from the columns of a struct."""

    rows: StructType | None
    """None where values are bytes already."""
    framed: bool

    @classmethod
    def read(cls, options: Mapping[str, str], schema: StructType) -> ValueEncoding:
        """As the options say for rows of a schema. SettingsError if they do not fit together."""
        mistakes = OptionMistakes()
        fields = OptionFields(options, mistakes)
        wanted = fields.text("valueFormat")
        if wanted is not None and wanted.strip().lower() != AVRO:
            fields.wrong("valueFormat", "The sink encodes avro. Leave it out for values that are string or binary.")
        framed = fields.choice("valueFraming", ("none", SINGLE_OBJECT)) == SINGLE_OBJECT
        mistakes.raise_any()
        if wanted is None:
            return cls(None, framed=False)
        rows = schema[VALUE].dataType if VALUE in schema.names else None
        if not isinstance(rows, StructType):
            raise SettingsError(
                "valueFormat is avro, but the column value is no struct",
                "Make one, such as by struct('*'), or leave valueFormat out.",
            )
        avro_schema_of(rows)
        return cls(rows, framed)

    def written(self, schema: StructType) -> StructType:
        """The columns that are left to write."""
        if self.rows is None:
            return schema
        fields = [StructField(VALUE, BinaryType()) if field.name == VALUE else field for field in schema.fields]
        return StructType([field for field in fields if field.name != VALUE_BYTES])

    def apply(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """The same rows with their values encoded."""
        if self.rows is None:
            yield from batches
            return
        from catchment.spark.formats.rows.encoding import RowEncoder

        encoder = RowEncoder(self.rows, self.framed)
        for batch in batches:
            yield from _encoded(encoder, batch)


def _encoded(encoder: RowEncoder, batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    try:
        values = encoder.encode(batch.column(VALUE))
    except OverflowError:
        if batch.num_rows == 1:
            raise
        half = batch.num_rows // 2
        yield from _encoded(encoder, batch.slice(0, half))
        yield from _encoded(encoder, batch.slice(half))
        return
    if VALUE_BYTES in batch.schema.names:
        others = batch.column(VALUE_BYTES)
        if others.null_count < len(others):
            values = pyarrow.compute.coalesce(values, others.cast(pyarrow.binary()))
        batch = batch.drop_columns([VALUE_BYTES])
    yield batch.set_column(batch.schema.names.index(VALUE), VALUE, values)
