"""Partition columns: their names, the splitting of rows, and folders that every reader understands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pyarrow.dataset
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from tests.pipelines.lakes.lake_world import put

from catchment.pipelines.lakes import Lake, LakeRefused
from catchment.pipelines.lakes.delta import DeltaLake
from catchment.pipelines.lakes.partitioning import (
    check_partition_types,
    parse_partition_by,
    partition_folder,
    split,
)

_ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["", "a", "b", "ä"]),
        st.none() | st.dates(),
        st.none() | st.booleans(),
    ),
    max_size=60,
)


@pytest.mark.parametrize(
    ("declared", "name", "expression"),
    [
        ("district", "district", None),
        ("date(at)", "at_date", "date(at)"),
        (" hour( at ) ", "at_hour", "hour( at )"),
        ("date_trunc('month', at) AS month", "month", "date_trunc('month', at)"),
        ("lower(district) as place", "place", "lower(district)"),
    ],
)
def test_a_partition_column_is_named_after_its_expression(declared: str, name: str, expression: str | None) -> None:
    assert parse_partition_by([declared]) == ((name, expression),)


def test_an_expression_without_a_name_is_refused_with_the_way_to_name_it() -> None:
    with pytest.raises(LakeRefused, match="Give it one: `left"):
        parse_partition_by(["left(district, 2)"])


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(LakeRefused, match="two partition columns are named at_date"):
        parse_partition_by(["date(at)", "at AS At_Date"])


@pytest.mark.parametrize("kind", [pyarrow.float64(), pyarrow.timestamp("us", "UTC"), pyarrow.list_(pyarrow.int32())])
def test_types_that_make_no_good_folders_are_refused(kind: pyarrow.DataType) -> None:
    with pytest.raises(LakeRefused, match="cannot be partitioned by at, which is of type"):
        check_partition_types(pyarrow.schema([("at", kind), ("id", pyarrow.int64())]), ["at"])


def test_a_lake_without_any_other_column_is_refused() -> None:
    with pytest.raises(LakeRefused, match="partitioned by all of its columns"):
        check_partition_types(pyarrow.schema([("district", pyarrow.string())]), ["district"])


@given(_ROWS)
def test_splitting_gives_every_row_to_its_values_and_keeps_their_order(rows: list[tuple[Any, Any, Any]]) -> None:
    batch = pyarrow.RecordBatch.from_arrays(
        [
            pyarrow.array([row[0] for row in rows], pyarrow.string()),
            pyarrow.array([row[1] for row in rows], pyarrow.date32()),
            pyarrow.array([row[2] for row in rows], pyarrow.bool_()),
            pyarrow.array(range(len(rows)), pyarrow.int64()),
        ],
        ["district", "day", "flag", "number"],
    )

    parts = list(split(batch, ["district", "day", "flag"]))

    by_values: dict[tuple[str | None, ...], list[int]] = {}
    for values, part in parts:
        assert part.schema.names == ["number"]
        by_values.setdefault(values, []).extend(part.column("number").to_pylist())
    wanted: dict[tuple[str | None, ...], list[int]] = {}
    for number, (district, day, flag) in enumerate(rows):
        texts = (
            district or None,
            None if day is None else day.isoformat(),
            None if flag is None else str(flag).lower(),
        )
        wanted.setdefault(texts, []).append(number)
    assert {values: sorted(found) for values, found in by_values.items() if found} == wanted
    assert all(part.column("number").to_pylist() == sorted(part.column("number").to_pylist()) for _, part in parts)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_every_text_becomes_one_folder_that_arrow_reads_back(value: str) -> None:
    folder = partition_folder(["district"], (value,))

    assert folder.count("/") == 1
    assert not set(folder) & set('*?[]{}\\"<>|:#\0')
    hive = pyarrow.dataset.HivePartitioning(pyarrow.schema([("district", pyarrow.string())]))
    assert pyarrow.dataset.get_partition_keys(hive.parse(f"{folder}part.parquet")) == {"district": value}


def test_odd_values_are_read_back_by_duckdb(tmp_path: Path) -> None:
    values = ["a b", "x/y", "100%", "ä=ö", "..", "日本", "it's", "tab\t", "{a,b}[0]*?", "+", None]
    for number, value in enumerate(values):
        folder = tmp_path / partition_folder(["district"], (value,))
        folder.mkdir()
        parquet.write_table(pyarrow.table({"number": [number]}), folder / "part.parquet")

    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT district FROM read_parquet('{tmp_path}/**/*.parquet', hive_partitioning=true) ORDER BY number"
        ).fetchall()

    assert [row[0] for row in rows] == values


@pytest.mark.parametrize(("letter", "escaped_bytes"), [("x", 1), ("~", 3), ("%", 3), ("ж", 6), ("🔥", 12)])
def test_a_value_too_long_for_a_folder_is_cut_and_stays_apart_from_others_that_begin_alike(
    make_lake: Callable[[], Lake], letter: str, escaped_bytes: int
) -> None:
    longest = 246 // escaped_bytes
    values = ["short", letter * longest, letter * (longest + 1), letter * 500 + "a", letter * 500 + "b"]
    lake = make_lake()
    for batch_id in range(2):
        put(lake, pyarrow.table({"district": values, "number": list(range(5))}), "query", batch_id)
    if isinstance(lake, DeltaLake):
        lake.maintain()

    rows = lake.read_arrow().group_by("number").aggregate([("district", "distinct"), ("district", "count")]).to_pylist()

    kept = {row["number"]: row["district_distinct"] for row in rows}
    assert [row["district_count"] for row in rows] == [2] * 5
    assert (kept[0], kept[1]) == ([values[0]], [values[1]])
    assert len({kept[number][0] for number in range(5)}) == 5
    for number in (2, 3, 4):
        [cut] = kept[number]
        start, _, digest = cut.rpartition("-")
        assert values[number].startswith(start)
        assert len(start) > 200 // escaped_bytes
        assert len(digest) == 16
