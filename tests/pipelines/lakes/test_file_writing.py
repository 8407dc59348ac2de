"""What a task writes: row groups and files of a bounded size, with bounded memory, and nothing left behind on failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow
import pytest
from pyarrow import parquet

from catchment.pipelines.lakes.file_writing import FileLayout, Limits, write_files
from catchment.pipelines.lakes.folder import LocalFolder, folder_at

_SCHEMA = pyarrow.schema([("number", pyarrow.int64()), ("place", pyarrow.int32())])


def _batches(count: int, places: int, rows: int = 100) -> Iterator[pyarrow.RecordBatch]:
    for number in range(count):
        yield pyarrow.RecordBatch.from_pydict(
            {"number": list(range(number * rows, (number + 1) * rows)), "place": [row % places for row in range(rows)]},
            schema=_SCHEMA,
        )


def _layout(**limits: int) -> FileLayout:
    return FileLayout(_SCHEMA, ("place",), limits=Limits(**limits))


def _numbers(root: Path) -> list[int]:
    files = [parquet.ParquetFile(file).read().column("number").to_pylist() for file in root.rglob("*.parquet")]
    return sorted(number for file in files for number in file)


def test_small_input_becomes_one_file_and_one_row_group_for_each_value(tmp_path: Path) -> None:
    written = write_files(_batches(50, places=4), LocalFolder(tmp_path), _layout())

    assert sorted(one.partition_values["place"] or "" for one in written) == ["0", "1", "2", "3"]
    for one in written:
        footer = parquet.read_metadata(tmp_path / one.path)
        assert (footer.num_row_groups, footer.num_rows, footer.num_columns) == (1, one.rows, 1)
        assert footer.row_group(0).column(0).compression == "ZSTD"
        assert one.size_bytes == (tmp_path / one.path).stat().st_size
    assert _numbers(tmp_path) == list(range(5000))


def test_rows_are_written_before_they_fill_the_memory(tmp_path: Path) -> None:
    written = write_files(_batches(50, places=1), LocalFolder(tmp_path), _layout(buffered_bytes=12_000))

    (one,) = written
    assert parquet.read_metadata(tmp_path / one.path).num_row_groups == 5
    assert _numbers(tmp_path) == list(range(5000))


class _CountingFolder(LocalFolder):
    """Knows how many files are open."""

    open_now = 0
    most_open = 0

    @contextmanager
    def writing(self, path: str) -> Iterator[IO[bytes]]:
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        with super().writing(path) as file:
            yield file
        self.open_now -= 1


def test_no_more_files_are_open_than_allowed(tmp_path: Path) -> None:
    folder = _CountingFolder(tmp_path)

    write_files(_batches(20, places=50), folder, _layout(buffered_bytes=5_000, open_files=8))

    # The one that is being written comes on top.
    assert (folder.most_open, folder.open_now) == (9, 0)
    assert _numbers(tmp_path) == list(range(2000))


def test_a_file_that_is_large_enough_is_followed_by_another(tmp_path: Path) -> None:
    limits = {"buffered_bytes": 12_000, "file_bytes": 2_000}

    written = write_files(_batches(50, places=1), LocalFolder(tmp_path), _layout(**limits))

    assert len(written) > 1
    assert all(one.size_bytes < 3 * 2_000 for one in written)
    assert _numbers(tmp_path) == list(range(5000))


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def failing() -> Iterator[pyarrow.RecordBatch]:
        yield from _batches(10, places=3)
        raise ValueError("a row that cannot be computed")

    with pytest.raises(ValueError, match="cannot be computed"):
        write_files(failing(), LocalFolder(tmp_path), _layout(buffered_bytes=2_000, open_files=1))

    assert not list(tmp_path.rglob("*.parquet"))


def test_two_attempts_of_one_task_do_not_touch_each_other(tmp_path: Path) -> None:
    first = write_files(_batches(1, places=2), LocalFolder(tmp_path), _layout())
    second = write_files(_batches(1, places=2), LocalFolder(tmp_path), _layout())

    assert not {one.path for one in first} & {one.path for one in second}
    assert len(list(tmp_path.rglob("*.parquet"))) == 4


@pytest.mark.parametrize("spelled", ["{}", "file:{}", "file://{}"])
def test_a_local_folder_may_be_given_as_a_path_or_uri(tmp_path: Path, spelled: str) -> None:
    assert folder_at(spelled.format(tmp_path / "a lake")).location == str(tmp_path / "a lake")


def test_a_relative_path_is_where_the_driver_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert folder_at("lake/reports").location == str(tmp_path / "lake" / "reports")
