"""The work of a task: it writes its rows to Parquet files, one or more for each combination of partition values.

Rows are buffered until there are enough for a row group, which bounds the memory. File names are random for every attempt of a
task: an attempt never touches a file of another one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow
from pyarrow import parquet

from catchment.pipelines.lakes.folder import Folder
from catchment.pipelines.lakes.partitioning import PartitionValues, partition_folder, split
from catchment.pipelines.lakes.schemas import conformed
from catchment.pipelines.lakes.statistics import statistics_of

_COMPRESSION: Final = "zstd"
_COMPRESSION_LEVEL: Final = 1


class WrittenFile(NamedTuple):
    """A complete and durable file that no reader sees yet."""

    path: str
    size_bytes: int
    rows: int
    partition_values: Mapping[str, str | None]
    statistics: str


class Limits(NamedTuple):
    """What a task may hold at once, and when a file is large enough."""

    buffered_bytes: int = 64 << 20
    open_files: int = 64
    file_bytes: int = 256 << 20


@dataclass(frozen=True)
class FileLayout:
    """Where the files of a batch are in the lake's folder, and their schema."""

    schema: pyarrow.Schema
    partition_columns: tuple[str, ...]
    prefix: str = ""
    suffix: str = ".parquet"
    limits: Limits = field(default_factory=Limits)

    @property
    def file_schema(self) -> pyarrow.Schema:
        return pyarrow.schema([one for one in self.schema if one.name not in self.partition_columns])


def write_files(batches: Iterable[pyarrow.RecordBatch], folder: Folder, layout: FileLayout) -> list[WrittenFile]:
    """Write all rows; on an error, the files are removed as far as possible."""
    files = PartitionedFiles(folder, layout)
    try:
        for batch in batches:
            files.add(conformed(batch, layout.schema))
        return files.finish()
    except BaseException:
        files.abandon()
        raise


class PartitionedFiles:
    """The files of one task, and the rows that wait for a row group."""

    def __init__(self, folder: Folder, layout: FileLayout) -> None:
        self._folder = folder
        self._layout = layout
        self._waiting: dict[PartitionValues, list[pyarrow.RecordBatch]] = {}
        self._waiting_bytes = 0
        self._open: dict[PartitionValues, _OpenFile] = {}
        self._begun: list[str] = []
        self._written: list[WrittenFile] = []

    def add(self, batch: pyarrow.RecordBatch) -> None:
        if not batch.num_rows:
            return
        for values, rows in split(batch, self._layout.partition_columns):
            self._waiting.setdefault(values, []).append(rows)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= self._layout.limits.buffered_bytes:
            self._write_waiting()

    def finish(self) -> list[WrittenFile]:
        self._write_waiting()
        for values in list(self._open):
            self._close(values)
        self._folder.settle(one.path for one in self._written)
        return self._written

    def abandon(self) -> None:
        for file in self._open.values():
            file.abandon()
        for path in self._begun:
            with suppress(OSError):
                self._folder.remove(path)

    def _write_waiting(self) -> None:
        for values, batches in self._waiting.items():
            if values not in self._open:
                self._open[values] = self._begin(values)
            size_bytes = self._open[values].write_row_group(batches)
            if size_bytes >= self._layout.limits.file_bytes or len(self._open) > self._layout.limits.open_files:
                self._close(values)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _begin(self, values: PartitionValues) -> _OpenFile:
        folder = partition_folder(self._layout.partition_columns, values)
        path = f"{self._layout.prefix}{folder}part-{uuid.uuid4()}{self._layout.suffix}"
        self._begun.append(path)
        return _OpenFile(self._folder, path, self._layout.file_schema)

    def _close(self, values: PartitionValues) -> None:
        file = self._open.pop(values)
        size_bytes, footer = file.close()
        named = dict(zip(self._layout.partition_columns, values, strict=True))
        statistics = statistics_of(footer, self._layout.file_schema)
        self._written.append(WrittenFile(file.path, size_bytes, footer.num_rows, named, statistics))


class _OpenFile:
    """A Parquet file that is being written."""

    def __init__(self, folder: Folder, path: str, schema: pyarrow.Schema) -> None:
        self.path = path
        self._schema = schema
        self._contexts = ExitStack()
        self._sink = self._contexts.enter_context(folder.writing(path))
        self._footers: list[parquet.FileMetaData] = []
        self._writer = parquet.ParquetWriter(
            self._sink,
            schema,
            compression=_COMPRESSION,
            compression_level=_COMPRESSION_LEVEL,
            store_schema=False,
            metadata_collector=self._footers,
        )

    def write_row_group(self, batches: Iterable[pyarrow.RecordBatch]) -> int:
        """The size of the file so far."""
        rows = pyarrow.Table.from_batches(batches, self._schema)
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        return int(self._sink.tell())

    def close(self) -> tuple[int, parquet.FileMetaData]:
        self._writer.close()
        size_bytes = int(self._sink.tell())
        self._contexts.close()
        (footer,) = self._footers
        return size_bytes, footer

    def abandon(self) -> None:
        with suppress(OSError, pyarrow.ArrowException):
            self._writer.close()
        with suppress(OSError):
            self._contexts.close()
