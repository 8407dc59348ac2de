"""The format `string`: text in UTF-8, checked. Spark itself would take any bytes for text and show them as garbage later."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import DataType, StringType

from catchment.spark.formats.decoder import Decoded
from catchment.spark.formats.payloads import Payloads


@dataclass(frozen=True)
class TextDecoder:
    """Text. The whole column is checked at once, and row by row only if a row in it is wrong."""

    @property
    def data_type(self) -> DataType:
        return StringType()

    def decode(self, payloads: Payloads) -> Decoded:
        column = payloads.binary()
        try:
            return Decoded(column.cast(pa.string()), {})
        except pa.ArrowInvalid:
            return _row_by_row(payloads)


def _row_by_row(payloads: Payloads) -> Decoded:
    texts: list[str | None] = []
    errors: dict[int, str] = {}
    for index, payload in enumerate(payloads.rows()):
        try:
            texts.append(None if payload is None else payload.decode())
        except UnicodeDecodeError as error:
            texts.append(None)
            errors[index] = f"byte {error.start} is not UTF-8 ({error.reason})"
    return Decoded(pa.array(texts, pa.string()), errors)
