"""The usual change of an Avro schema, done on whole columns: fields of the record left out, moved, added with a default, made
nullable, or given a wider number. What is more than that is resolved record by record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from catchment.spark.formats.avro import kernels
from catchment.spark.formats.avro.schema import Node
from catchment.spark.formats.decoder import arrow_type
from catchment.spark.formats.payloads import bitmap

_WIDER: Final = {
    (kernels.INT, kernels.LONG),
    (kernels.INT, kernels.DOUBLE),
    (kernels.FLOAT, kernels.DOUBLE),
}
_PLAIN_NUMBERS: Final = (spark.IntegerType, spark.LongType, spark.FloatType, spark.DoubleType)


@dataclass(frozen=True)
class Projection:
    """For each field of the reader's record, the number of the writer's field that it is, or None for its default."""

    reader: Node
    sources: tuple[int | None, ...]

    @property
    def needs_defaults(self) -> bool:
        return None in self.sources

    def apply(self, written: Any, defaults: Any) -> Any:
        """A column of the reader's type from one of the writer's; `defaults` is a record of the reader's with all of them."""
        valid = written.is_valid().to_numpy(zero_copy_only=False)
        first = pa.array(np.zeros(len(written), np.int32), mask=~valid)
        target = arrow_type(self.reader.data_type)
        children = [
            defaults.field(number).take(first) if source is None else written.field(source).cast(field.type)
            for number, (source, field) in enumerate(zip(self.sources, target, strict=True))
        ]
        return pa.Array.from_buffers(target, len(written), [bitmap(valid)], children=children)


def projection(writer: Node, reader: Node, reader_schema: Any) -> Projection | None:
    """How to read the one as the other, or None if that takes more than columns can do."""
    if not (isinstance(writer.data_type, spark.StructType) and isinstance(reader.data_type, spark.StructType)):
        return None
    if (writer.kind, reader.kind) != (kernels.RECORD, kernels.RECORD) or writer.branches or reader.branches:
        return None
    places = {name: number for number, name in enumerate(writer.data_type.names)}
    sources: list[int | None] = []
    for field, child in zip(reader_schema["fields"], reader.children, strict=True):
        place = places.get(field["name"])
        if place is None and ("default" not in field or "aliases" in field):
            return None
        if place is not None and not _holds(child, writer.children[place]):
            return None
        sources.append(place)
    return Projection(reader, tuple(sources))


def _holds(reader: Node, writer: Node) -> bool:
    """Whether every value of the writer's type is one of the reader's, in a column of the same or a wider type."""
    if reader == writer:
        return True
    if writer.branches:
        return False
    bare = replace(reader, branches=0, null_branch=-1)
    if reader.kind == kernels.UNION or bare == writer:
        return bare == writer
    plain = isinstance(reader.data_type, _PLAIN_NUMBERS) and isinstance(writer.data_type, _PLAIN_NUMBERS)
    return plain and (writer.kind, reader.kind) in _WIDER
