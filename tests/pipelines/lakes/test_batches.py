"""A batch is in a lake once, whatever its format: repeated, raced, or broken off at any file operation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Barrier

import duckdb
import pyarrow
import pytest
from deltalake import DeltaTable
from tests.pipelines.lakes.lake_world import DISTRICTS, NUMBERS, expected, found, numbers, put, stage

from catchment.pipelines.lakes import Lake, LakeAway, LakeRefused, open_lake
from catchment.pipelines.lakes.file_writing import FileLayout, WrittenFile
from catchment.pipelines.lakes.folder import LocalFolder

MakeLake = Callable[[], Lake]


def test_a_repeated_batch_changes_nothing(make_lake: MakeLake) -> None:
    lake = make_lake()

    assert [put(lake, numbers(batch), "board", batch) for batch in (0, 1, 2)] == [True, True, True]
    assert [put(make_lake(), numbers(batch), "board", batch) for batch in (2, 1, 0)] == [False, False, False]

    assert found(lake.read_arrow()) == expected([0, 1, 2])
    assert lake.last_batch("board") == 2


def test_two_queries_write_one_lake_without_taking_note_of_each_other(make_lake: MakeLake) -> None:
    lake = make_lake()

    assert put(lake, numbers(0), "board", 7)
    assert put(lake, numbers(1), "board/2 ä", 0)

    assert (lake.last_batch("board"), lake.last_batch("board/2 ä"), lake.last_batch("other")) == (7, 0, None)
    assert found(lake.read_arrow()) == expected([0, 1])


def test_partition_values_come_back_as_they_were(make_lake: MakeLake) -> None:
    lake = make_lake()

    put(lake, numbers(0), "board", 0)

    assert lake.read_arrow().select(NUMBERS.names).sort_by("number") == numbers(0)
    assert set(lake.read_arrow().column("district").to_pylist()) == set(DISTRICTS)


def test_an_empty_batch_makes_the_lake_and_commits_nothing(make_lake: MakeLake) -> None:
    lake = make_lake()

    assert put(lake, numbers(0).slice(0, 0), "board", 0)

    assert lake.read_arrow().num_rows == 0
    assert lake.last_batch("board") is None


def test_of_drivers_that_commit_one_batch_at_once_one_wins(make_lake: MakeLake) -> None:
    for batch_id in range(5):
        drivers = [make_lake() for _ in range(4)]
        staged = [stage(lake, numbers(batch_id), "board", batch_id) for lake in drivers]
        start = Barrier(len(drivers))

        outcomes = _at_once(
            partial(_commit_after, start, lake, written, layout, batch_id)
            for lake, (written, layout) in zip(drivers, staged, strict=True)
        )

        assert sorted(outcomes) == [False, False, False, True]
    assert found(make_lake().read_arrow()) == expected(range(5))


def _commit_after(start: Barrier, lake: Lake, written: list[WrittenFile], layout: FileLayout, batch_id: int) -> bool:
    start.wait()
    return lake.commit(written, layout, "board", batch_id)


def _at_once(calls: Iterable[Callable[[], bool]]) -> list[bool]:
    with ThreadPoolExecutor(max_workers=8) as pool:
        return [call.result() for call in [pool.submit(call) for call in calls]]


def test_a_driver_that_slept_through_later_batches_adds_nothing(make_lake: MakeLake) -> None:
    sleeper = make_lake()
    staged = stage(sleeper, numbers(3), "board", 3)
    for batch_id in range(3, 110):
        assert put(make_lake(), numbers(batch_id), "board", batch_id)

    assert not sleeper.commit(*staged, "board", 3)

    assert found(make_lake().read_arrow()) == expected(range(3, 110))
    assert make_lake().last_batch("board") == 109


def test_new_columns_are_added_and_older_rows_have_nulls_there(make_lake: MakeLake) -> None:
    lake = make_lake()
    put(lake, numbers(0), "board", 0)

    wider = numbers(1).append_column("crew", pyarrow.array([4] * 12, pyarrow.int32()))
    put(make_lake(), wider, "board", 1)
    put(lake, numbers(2), "board", 2)

    crews = lake.read_arrow().sort_by("number").column("crew").to_pylist()
    assert crews == [None] * 12 + [4] * 12 + [None] * 12


def test_a_changed_type_is_refused_with_the_name_of_the_column(make_lake: MakeLake) -> None:
    put(make_lake(), numbers(0), "board", 0)
    changed = numbers(1).set_column(1, "number", numbers(1).column("number").cast(pyarrow.string()))

    with pytest.raises(LakeRefused, match=r"column number is int64 in the lake .* and is string now"):
        put(make_lake(), changed, "board", 1)

    assert found(make_lake().read_arrow()) == expected([0])


def test_other_partition_columns_are_refused(make_lake: MakeLake, tmp_path: Path) -> None:
    lake = make_lake()
    put(lake, numbers(0), "board", 0)
    kind = "delta" if (tmp_path / "lake" / "_delta_log").exists() else "parquet"
    other = open_lake(str(tmp_path / "lake"), kind=kind, partition_by=["batch"])

    with pytest.raises(LakeRefused, match=r"partitioned by .*district.*, not by .*batch"):
        put(other, numbers(1), "board", 1)


@contextmanager
def _failing_at(operation: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let the operation of this number fail, before or after it was done, and all operations behind it, as in a crash."""
    done: list[str] = []

    def breaking(name: str, original: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **named: object) -> object:
            done.append(name)
            if len(done) * 2 - 1 > operation:
                raise OSError(f"crashed before {name}")
            result = original(*arguments, **named)
            if len(done) * 2 > operation:
                raise OSError(f"crashed after {name}")
            return result

        return run

    with monkeypatch.context() as patch:
        for name in ("link", "fsync", "listdir", "mkdir", "unlink", "rename"):
            patch.setattr(os, name, breaking(name, getattr(os, name)))
        for name in ("writing", "settle", "sync_files", "move", "create", "remove", "remove_folder", "read", "make"):
            patch.setattr(LocalFolder, name, breaking(name, getattr(LocalFolder, name)))
        for name in ("create_write_transaction", "update_incremental", "transaction_version", "create"):
            patch.setattr(DeltaTable, name, breaking(name, getattr(DeltaTable, name)))
        yield done


@pytest.mark.parametrize("is_first", [True, False], ids=["the first batch", "a later batch"])
def test_a_crash_at_any_operation_leaves_the_batch_whole_or_to_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_lake: MakeLake, is_first: bool
) -> None:
    kind = "delta" if type(make_lake()).__name__ == "DeltaLake" else "parquet"
    for operation in range(1, 2000):
        place = tmp_path / str(operation)

        def lake(place: Path = place) -> Lake:
            return open_lake(str(place), kind=kind, partition_by="district")

        earlier = [] if is_first else [0]
        for batch_id in earlier:
            put(lake(), numbers(batch_id), "board", batch_id)
        with _failing_at(operation, monkeypatch) as done:
            try:
                put(lake(), numbers(1), "board", 1)
                is_over = len(done) * 2 < operation
            except (LakeAway, OSError):
                is_over = False
        _check_readers_see_whole_batches(place, kind)

        put(lake(), numbers(1), "board", 1)
        assert put(lake(), numbers(2), "board", 2)

        assert found(lake().read_arrow()) == expected([*earlier, 1, 2]), (
            f"after a crash at operation {operation}: {done}"
        )
        if is_over:
            return
    raise AssertionError("the writing of a batch never came to its end")


def _check_readers_see_whole_batches(place: Path, kind: str) -> None:
    """Delta's readers see a batch or do not; a reader that globs files sees only complete files of decided batches."""
    if kind == "delta":
        if DeltaTable.is_deltatable(str(place)):
            counts = DeltaTable(str(place)).to_pyarrow_table().group_by("batch").aggregate([("number", "count")])
            assert set(counts.column("number_count").to_pylist()) <= {12}
        return
    if list(place.glob("**/*.parquet")):
        with duckdb.connect() as connection:
            seen = connection.execute(f"SELECT number FROM read_parquet('{place}/**/*.parquet')").fetchall()
        assert set(seen) <= {(number,) for number in expected([0, 1])}
        assert len(seen) == len(set(seen))
