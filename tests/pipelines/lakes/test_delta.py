"""What Delta's log adds: other writers, compaction and vacuum beside the writer, versions, a log that stays small."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import polars
import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from tests.pipelines.lakes.lake_world import NUMBERS, all_types, by_duckdb, expected, found, numbers, put, stage

from catchment.pipelines.lakes import LakeAway, LakeRefused, open_lake
from catchment.pipelines.lakes.delta import DeltaLake

_HOUR_S = 3600


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def _lake(path: Path, partition_by: str | tuple[str, ...] = "district") -> DeltaLake:
    lake = open_lake(str(path), partition_by=partition_by)
    assert isinstance(lake, DeltaLake)
    return lake


def _age(files: list[Path], hours: int) -> None:
    then = time.time() - hours * _HOUR_S
    for file in files:
        os.utime(file, (then, then))


def test_every_type_comes_back_through_arrow_duckdb_and_polars(path: Path) -> None:
    rows = all_types()

    put(_lake(path, ()), rows, "board", 0)

    stored = _lake(path, ())
    assert stored.read_arrow().cast(rows.schema) == rows
    assert by_duckdb(stored.dataset()).cast(rows.schema).to_pylist() == rows.to_pylist()
    assert polars.read_delta(str(path)).equals(polars.DataFrame(rows))


def test_readers_that_skip_files_by_their_statistics_miss_nothing(path: Path) -> None:
    lake = _lake(path)
    for batch_id in range(4):
        put(lake, numbers(batch_id), "board", batch_id)

    table = DeltaTable(str(path))
    for number in expected(range(4)):
        read = pyarrow.table(table.scan(predicate=f"number = {number}"))
        assert read.column("number").to_pylist() == [number]
    assert len(table.file_uris(file_pruning_predicate=[("district", "=", "Harbour")])) == 4


def test_writers_optimize_and_vacuum_at_once_lose_nothing(path: Path) -> None:
    put(_lake(path), numbers(0), "north", 0)
    over = Event()

    def write(query: str, batches: range) -> None:
        lake = _lake(path)
        for batch_id in batches:
            assert put(lake, numbers(batch_id), query, batch_id)

    def maintain() -> int:
        lake = _lake(path)
        compacted = 0
        while not over.is_set():
            compacted += lake.maintain().files_compacted
        return compacted

    with ThreadPoolExecutor(max_workers=4) as pool:
        writers = [pool.submit(write, "north", range(1, 40)), pool.submit(write, "south", range(40, 80))]
        keeper = pool.submit(maintain)
        try:
            for writer in writers:
                writer.result()
        finally:
            over.set()
        compacted = keeper.result()

    assert compacted > 0
    assert found(_lake(path).read_arrow()) == expected(range(80))
    assert (_lake(path).last_batch("north"), _lake(path).last_batch("south")) == (39, 79)


def test_a_vacuum_takes_old_leftovers_and_neither_young_ones_nor_what_is_named(path: Path) -> None:
    lake = _lake(path)
    put(lake, numbers(0), "board", 0)
    named = list(path.rglob("*.parquet"))
    stage(lake, numbers(1), "board", 1)
    abandoned = [file for file in path.rglob("*.parquet") if file not in named]
    staged, layout = stage(lake, numbers(1), "board", 1)
    _age([*named, *abandoned], 24 * 8)

    removed = lake.vacuum()

    assert sorted(path / file for file in removed) == sorted(abandoned)
    assert lake.commit(staged, layout, "board", 1)
    assert found(lake.read_arrow()) == expected([0, 1])


def test_a_vacuum_of_what_may_still_be_written_is_refused(path: Path) -> None:
    put(_lake(path), numbers(0), "board", 0)

    with pytest.raises(LakeRefused, match="might take those of a batch that is being written"):
        _lake(path).vacuum(0)


def test_readers_of_an_old_version_are_not_disturbed_by_maintenance(path: Path) -> None:
    lake = _lake(path)
    for batch_id in range(3):
        put(lake, numbers(batch_id), "board", batch_id)
    version = DeltaTable(str(path)).version()
    before = lake.dataset()
    _age(list(path.rglob("*.parquet")), 24 * 8)

    done = lake.maintain()

    assert (done.files_compacted, done.files_written, done.files_removed) == (12, 4, 0)
    assert found(before.to_table()) == found(lake.read_arrow(version)) == found(lake.read_arrow()) == expected(range(3))
    assert found(lake.read_arrow(version - 1)) == expected(range(2))


def test_the_log_is_summed_up_and_the_transactions_outlive_its_entries(path: Path) -> None:
    lake = _lake(path, ())
    put(lake, numbers(0), "once", 5)
    DeltaTable(str(path)).alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    for batch_id in range(1, 121):
        put(lake, numbers(batch_id), "board", batch_id)

    entries = [file.name for file in (path / "_delta_log").iterdir() if file.suffix == ".json"]
    assert len(entries) < 60, "entries that a checkpoint has summed up are removed"
    assert any((path / "_delta_log").glob("*.checkpoint.parquet"))
    assert (_lake(path, ()).last_batch("once"), _lake(path, ()).last_batch("board")) == (5, 120)
    assert not put(_lake(path, ()), numbers(0), "once", 5)
    assert found(_lake(path, ()).read_arrow()) == expected(range(121))


def test_drivers_that_make_the_table_at_the_same_time_make_one(path: Path) -> None:
    with ThreadPoolExecutor(max_workers=6) as pool:
        assert all(pool.map(lambda one: put(_lake(path), numbers(one), f"query {one}", 0), range(6)))

    assert found(_lake(path).read_arrow()) == expected(range(6))


def test_drivers_that_add_columns_at_the_same_time_add_them_all(path: Path) -> None:
    put(_lake(path), numbers(0), "board", 0)

    def widen(one: int) -> bool:
        wider = numbers(one).append_column(f"crew_{one % 2}", pyarrow.array([one] * 12))
        return put(_lake(path), wider, f"query {one}", 0)

    with ThreadPoolExecutor(max_workers=4) as pool:
        assert all(pool.map(widen, range(1, 5)))

    rows = _lake(path).read_arrow()
    assert found(rows) == expected(range(5))
    assert set(rows.column_names) == {*NUMBERS.names, "crew_0", "crew_1"}


def test_a_table_of_another_writer_is_continued(path: Path) -> None:
    write_deltalake(str(path), numbers(0), partition_by=["district"])

    assert put(_lake(path), numbers(1), "board", 0)

    assert found(_lake(path).read_arrow()) == expected([0, 1])


def test_a_commit_that_never_gets_through_ends_with_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = _lake(path)
    staged = stage(lake, numbers(0), "board", 0)

    def conflict(*_: object, **__: object) -> None:
        raise CommitFailedError("another writer was faster")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", conflict)
    with pytest.raises(LakeAway, match="others changed it 20 times in between"):
        lake.commit(*staged, "board", 0)


def test_reading_a_lake_that_is_not_there_says_so(path: Path) -> None:
    with pytest.raises(LakeRefused, match="there is no Delta table at"):
        _lake(path).read_arrow()
