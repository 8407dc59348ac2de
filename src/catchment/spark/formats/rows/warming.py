"""Compile the loops from rows to Avro and back ahead of their first use: that takes seconds on a machine that never did."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import LongType, StructType

from catchment.spark.formats.decoder import arrow_type
from catchment.spark.formats.payloads import Payloads
from catchment.spark.formats.rows.decoding import RowDecoder
from catchment.spark.formats.rows.encoding import RowEncoder
from catchment.spark.formats.rows.schema import avro_schema_of


def warm_rows() -> None:
    """Send one row through every compiled loop."""
    schema = StructType().add("number", LongType())
    encoded = RowEncoder(schema, framed=True).encode(pa.array([{"number": 1}], arrow_type(schema)))
    RowDecoder((avro_schema_of(schema),)).decode(Payloads.of(encoded))
