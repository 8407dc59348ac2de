"""Rows for lakes, and writing them as the tasks of a batch do, but in this process."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence

import duckdb
import pyarrow
import pyarrow.dataset

from catchment.pipelines.lakes import Lake
from catchment.pipelines.lakes.file_writing import FileLayout, WrittenFile, write_files
from catchment.pipelines.lakes.schemas import settled

NUMBERS = pyarrow.schema([("batch", pyarrow.int64()), ("number", pyarrow.int64()), ("district", pyarrow.string())])
DISTRICTS = ("Harbour", "Old Town/North", "100% = ä?", None)
ROWS_A_BATCH = 12
_NOON = datetime.datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=datetime.UTC)


def numbers(batch_id: int) -> pyarrow.Table:
    """The rows of a batch, all different from those of any other."""
    rows = range(ROWS_A_BATCH)
    return pyarrow.table(
        {
            "batch": [batch_id] * ROWS_A_BATCH,
            "number": [batch_id * ROWS_A_BATCH + row for row in rows],
            "district": [DISTRICTS[row % len(DISTRICTS)] for row in rows],
        },
        schema=NUMBERS,
    )


def all_types() -> pyarrow.Table:
    """Rows with a column of every type that a lake keeps, nulls and odd values among them."""
    noon = pyarrow.array([_NOON, None, _NOON], pyarrow.timestamp("us", "UTC"))
    inner = pyarrow.struct([("code", pyarrow.int32()), ("at", pyarrow.timestamp("us", "UTC"))])
    large = decimal.Decimal("12345678901234567890.123456789012345678")
    return pyarrow.table(
        {
            "flag": [True, None, False],
            "tiny": pyarrow.array([-128, None, 127], pyarrow.int8()),
            "small": pyarrow.array([-32768, None, 32767], pyarrow.int16()),
            "whole": pyarrow.array([-(2**31), None, 2**31 - 1], pyarrow.int32()),
            "long": pyarrow.array([-(2**63), None, 2**63 - 1], pyarrow.int64()),
            "single": pyarrow.array([1.5, None, float("inf")], pyarrow.float32()),
            "double": pyarrow.array([-0.0, None, 1e300], pyarrow.float64()),
            "price": pyarrow.array(
                [decimal.Decimal("-1.50"), None, decimal.Decimal("99.99")], pyarrow.decimal128(6, 2)
            ),
            "exact": pyarrow.array([large, None, -large], pyarrow.decimal128(38, 18)),
            "text": ["", None, "naïve 日本 \N{ROCKET}\0"],
            "bytes": pyarrow.array([b"", None, b"\x00\xff"], pyarrow.binary()),
            "day": pyarrow.array([datetime.date(1582, 10, 15), None, datetime.date(9999, 12, 31)]),
            "at": noon,
            "local": noon.cast(pyarrow.timestamp("us")),
            "list": pyarrow.array([[], None, ["a", None]], pyarrow.list_(pyarrow.string())),
            "map": pyarrow.array([[], None, [("k", 1), ("l", None)]], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
            "struct": pyarrow.array([{"code": None, "at": None}, None, {"code": 7, "at": _NOON}], inner),
            "deep": pyarrow.array([[{"code": 1, "at": _NOON}], None, [None]], pyarrow.list_(inner)),
        }
    )


def stage(lake: Lake, rows: pyarrow.Table, query: str, batch_id: int) -> tuple[list[WrittenFile], FileLayout]:
    """What comes before the commit of a batch; the rows come in two Arrow batches."""
    schema = pyarrow.schema([pyarrow.field(one.name, settled(one.type, one.name)) for one in rows.schema])
    layout = lake.prepare(schema, query, batch_id)
    batches = rows.to_batches(max_chunksize=max(1, rows.num_rows // 2))
    return write_files(batches, lake.folder, layout), layout


def put(lake: Lake, rows: pyarrow.Table, query: str, batch_id: int) -> bool:
    """As `Lake.write` does it, without Spark."""
    if (last := lake.last_batch(query)) is not None and last >= batch_id:
        return False
    written, layout = stage(lake, rows, query, batch_id)
    return lake.commit(written, layout, query, batch_id)


def found(rows: pyarrow.Table) -> list[int]:
    """The numbers of all rows, in order."""
    return sorted(rows.column("number").to_pylist())


def expected(batches: Sequence[int]) -> list[int]:
    return sorted(number for batch_id in batches for number in numbers(batch_id).column("number").to_pylist())


def by_duckdb(lake: pyarrow.dataset.Dataset, sql: str = "SELECT * FROM lake") -> pyarrow.Table:
    """What DuckDB makes of a lake."""
    with duckdb.connect() as connection:
        result = connection.register("lake", lake).sql(sql)
        assert result is not None, "the statement has no rows to give"
        return result.to_arrow_table()
