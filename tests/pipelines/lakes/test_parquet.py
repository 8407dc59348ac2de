"""Plain Parquet: what those see who only look for files, and the folder beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pipelines.lakes.lake_world import expected, found, numbers, put, stage

from catchment.pipelines.lakes import LakeAway, LakeRefused, find_lake, open_lake
from catchment.pipelines.lakes.folder import RemoteFolder
from catchment.pipelines.lakes.parquet import ParquetLake
from catchment.pipelines.lakes.partitioning import parse_partition_by


def _lake(path: Path) -> ParquetLake:
    lake = open_lake(str(path), kind="parquet", partition_by="district")
    assert isinstance(lake, ParquetLake)
    return lake


def test_files_of_a_batch_that_is_not_decided_match_no_pattern_of_parquet_files(tmp_path: Path) -> None:
    lake = _lake(tmp_path)
    written, layout = stage(lake, numbers(0), "board", 0)

    assert len(written) == 4
    assert not list(tmp_path.glob("**/*.parquet"))
    assert {file.name for file in tmp_path.iterdir()} == {"_catchment"}

    lake.commit(written, layout, "board", 0)
    assert len(list(tmp_path.glob("**/*.parquet"))) == 4


def test_a_batch_that_was_decided_and_not_finished_is_finished_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = _lake(tmp_path)
    written, layout = stage(lake, numbers(0), "board", 0)
    with monkeypatch.context() as patch:
        patch.setattr(lake.folder, "move", _no_space)
        with pytest.raises(LakeAway, match="No space left"):
            lake.commit(written, layout, "board", 0)
    assert not list(tmp_path.glob("**/*.parquet"))

    assert _lake(tmp_path).last_batch("board") == 0

    assert found(_lake(tmp_path).read_arrow()) == expected([0])


def _no_space(*_: str) -> bool:
    raise OSError(28, "No space left on device")


def test_what_failed_attempts_have_left_goes_with_the_next_batch(tmp_path: Path) -> None:
    lake = _lake(tmp_path)
    for _ in range(3):
        stage(lake, numbers(0), "board", 0)
    assert len(list(tmp_path.rglob("*.staged"))) == 12

    put(lake, numbers(0), "board", 0)

    assert not list(tmp_path.rglob("*.staged"))
    assert not list(tmp_path.glob("_catchment/queries/board/staging/*"))


def test_a_batch_of_another_query_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    slow = _lake(tmp_path)
    written, layout = stage(slow, numbers(0), "slow", 0)

    for batch_id in range(1, 4):
        put(_lake(tmp_path), numbers(batch_id), "board", batch_id)

    assert slow.commit(written, layout, "slow", 0)
    assert found(slow.read_arrow()) == expected(range(4))


def test_a_straggler_of_an_earlier_batch_leaves_the_files_of_the_next_one_alone(tmp_path: Path) -> None:
    straggler = _lake(tmp_path)
    late = stage(straggler, numbers(0), "board", 0)
    put(_lake(tmp_path), numbers(0), "board", 0)
    next_batch = stage(_lake(tmp_path), numbers(1), "board", 1)

    assert not straggler.commit(*late, "board", 0)

    assert _lake(tmp_path).commit(*next_batch, "board", 1)
    assert found(_lake(tmp_path).read_arrow()) == expected([0, 1])


def test_a_batch_whose_files_have_vanished_is_not_decided(tmp_path: Path) -> None:
    lake = _lake(tmp_path)
    staged = stage(lake, numbers(0), "board", 0)
    next(tmp_path.rglob("*.staged")).unlink()

    with pytest.raises(LakeAway, match="before its batch was decided"):
        lake.commit(*staged, "board", 0)

    assert put(lake, numbers(0), "board", 0)
    assert found(lake.read_arrow()) == expected([0])


def test_lists_of_old_batches_are_removed(tmp_path: Path) -> None:
    lake = _lake(tmp_path)
    for batch_id in range(105):
        put(lake, numbers(batch_id), "board", batch_id)

    lists = sorted(int(file.stem) for file in tmp_path.glob("_catchment/queries/board/*.json"))
    assert lists == list(range(5, 105))


def test_files_that_users_remove_stay_removed(tmp_path: Path) -> None:
    lake = _lake(tmp_path)
    put(lake, numbers(0), "board", 0)
    for file in tmp_path.glob("district=Harbour/*.parquet"):
        file.unlink()

    assert not put(_lake(tmp_path), numbers(0), "board", 0)

    assert len(found(_lake(tmp_path).read_arrow())) == 9


def test_versions_and_compaction_are_refused(tmp_path: Path) -> None:
    lake = _lake(tmp_path)
    put(lake, numbers(0), "board", 0)

    with pytest.raises(LakeRefused, match="has no versions"):
        lake.read_arrow(version=0)
    with pytest.raises(LakeRefused, match="not compacted"):
        lake.maintain()


def test_a_folder_that_is_no_lake_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LakeRefused, match="there is no lake at"):
        find_lake(str(tmp_path))
    with pytest.raises(LakeRefused, match="there is no format 'orc'"):
        open_lake(str(tmp_path), kind="orc")


def test_a_folder_that_arrow_reaches_is_written_like_a_local_one(tmp_path: Path) -> None:
    lake = ParquetLake(RemoteFolder(f"file://{tmp_path}/lake"), parse_partition_by(["district"]))
    stage(lake, numbers(0), "board", 0)

    assert [put(lake, numbers(batch_id), "board", batch_id) for batch_id in (0, 1, 1, 0)] == [True, True, False, False]

    assert found(lake.read_arrow()) == found(_lake(tmp_path / "lake").read_arrow()) == expected([0, 1])
    assert lake.describe()["batches"] == {"board": 1}
    assert not list(tmp_path.rglob("*.staged"))
