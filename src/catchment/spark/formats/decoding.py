"""Typed columns in place of the bytes of key and value, in every batch that a source reads.

The schema that a column is read with is pinned when the query is loaded: it is part of the `Decoding`, which is pickled with
the reader, so that all tasks of all batches of a run give the same type whatever is registered meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, StringType

from catchment.client.errors import ClientError
from catchment.spark.formats.decoder import Decoded, Decoder
from catchment.spark.formats.format_options import COLUMNS, FormatOptions, includes_bytes, on_decode_error
from catchment.spark.formats.payloads import Payloads


class UndecodableRecord(ClientError):
    """A record that is not what the schema of the query says."""


@dataclass(frozen=True)
class Decoding:
    """The decoders of key and value. Without any it passes every batch through as it is."""

    decoders: tuple[tuple[str, Decoder], ...]
    keeps_errors: bool
    keeps_bytes: bool = False

    @classmethod
    def read(cls, options: Mapping[str, str], topics: Sequence[str]) -> Decoding:
        """As the options say. `topics` are those that are subscribed to, as far as they are known by name."""
        decoders: list[tuple[str, Decoder]] = []
        for column in COLUMNS:
            asked = FormatOptions.read(options, column)
            if asked.format is not None:
                # The libraries of the formats cost a tenth of a second, which queries without a format do not pay.
                from catchment.spark.formats.loading import load_decoder

                decoders.append((column, load_decoder(asked, asked.format, options, topics)))
        return cls(tuple(decoders), on_decode_error(options) == "null", includes_bytes(options))

    def fields(self) -> list[tuple[str, DataType]]:
        """What stands in place of the columns key and value, and after all others the columns of errors."""
        types = dict(self.decoders)
        fields: list[tuple[str, DataType]] = [
            (column, types[column].data_type if column in types else BinaryType()) for column in COLUMNS
        ]
        for column, _ in self.decoders:
            if self.keeps_errors:
                fields.append((f"{column}Error", StringType()))
            if self.keeps_errors or self.keeps_bytes:
                fields.append((f"{column}Bytes", BinaryType()))
        return fields

    def raw_columns(self, wanted: Sequence[str]) -> list[str]:
        """Which columns must be read for those that are wanted; those of a record's place are for the error message."""
        raw = [name for name in wanted if name not in self._error_columns()]
        for column in self._decoded(wanted):
            raw += [column, *(() if self.keeps_errors else ("topic", "partition", "offset"))]
        return list(dict.fromkeys(raw))

    def apply(self, batch: Any, wanted: Any) -> Any:
        """A batch of raw records as one of the schema that is wanted."""
        columns = {name: batch.column(name) for name in batch.schema.names}
        for column, decoder in self.decoders:
            if column not in self._decoded(wanted.names):
                continue
            raw = columns[column]
            decoded = decoder.decode(Payloads.of(raw))
            if decoded.errors and not self.keeps_errors:
                raise _undecodable(batch, column, decoded.errors)
            columns[column] = decoded.column
            if self.keeps_errors:
                columns[f"{column}Error"], columns[f"{column}Bytes"] = _error_columns(raw, decoded)
            if self.keeps_bytes:
                columns[f"{column}Bytes"] = raw
        return pa.RecordBatch.from_arrays([columns[name] for name in wanted.names], schema=wanted)

    def _decoded(self, wanted: Sequence[str]) -> list[str]:
        return [
            column
            for column, _ in self.decoders
            if column in wanted or f"{column}Error" in wanted or f"{column}Bytes" in wanted
        ]

    def _error_columns(self) -> set[str]:
        return {name for name, _ in self.fields()} - set(COLUMNS)


def _error_columns(raw: Any, decoded: Decoded) -> tuple[Any, Any]:
    rows = len(raw)
    if not decoded.errors:
        return pa.nulls(rows, pa.string()), pa.nulls(rows, pa.binary())
    reasons = [decoded.errors.get(row) for row in range(rows)]
    payloads = [raw[row].as_py() if row in decoded.errors else None for row in range(rows)]
    return pa.array(reasons, pa.string()), pa.array(payloads, pa.binary())


def _undecodable(batch: Any, column: str, errors: dict[int, str]) -> UndecodableRecord:
    row = min(errors)
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    others = f" ({len(errors)} records of this batch do not)" if len(errors) > 1 else ""
    return UndecodableRecord(
        f"the {column} of topic {topic}, partition {partition}, offset {offset} does not decode: {errors[row]}{others}",
        f"Correct {column}Format or {column}Schema, or set onDecodeError to null: such records then give a null, with "
        f"the reason in the column {column}Error and the bytes in {column}Bytes.",
    )
