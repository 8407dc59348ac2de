"""The folder of a lake, local or remote, with durable file operations for tasks and drivers.

A closed file and a finished move survive a power failure. Paths are relative to the folder.

Gaps
    Remote folders take what Arrow reaches (`s3://`, `gs://`, `hdfs://`). A move on an object store is a copy and a removal.
"""

from __future__ import annotations

import os
import re
import shutil
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

import pyarrow
import pyarrow.dataset
from pyarrow import fs

from catchment.pipelines.declaration.addresses import check_lake_address
from catchment.spark.checkpoint.files import HADOOP_NAMES, Files, LocalFiles, local_path, sync
from catchment.spark.checkpoint.remote_files import RemoteFiles

_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")


class Folder(Files):
    """A folder of data files; it may be sent to the tasks of a job."""

    location: str
    """An absolute path, or a URI as deltalake and Arrow spell it."""

    @abstractmethod
    def writing(self, path: str) -> Any:
        """A context that gives a new file to write to, in folders that are made for it."""

    @abstractmethod
    def has(self, path: str) -> bool: ...

    @abstractmethod
    def settle(self, paths: Iterable[str]) -> None:
        """Return once the names of these files are as durable as their content."""

    @abstractmethod
    def sync_files(self, paths: Iterable[str]) -> None:
        """Make files durable that another library has written, and their names; missing files are skipped."""

    @abstractmethod
    def move(self, source: str, target: str) -> bool:
        """Rename a file; False if it is gone, because another process has moved it."""

    @abstractmethod
    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that is in it, if it is there."""

    @abstractmethod
    def dataset(self, schema: pyarrow.Schema, partitioning: pyarrow.dataset.Partitioning) -> pyarrow.dataset.Dataset:
        """All files whose names, and whose folders' names, begin with neither `_` nor a dot."""

    @abstractmethod
    def make(self) -> None:
        """Make the folder itself, if it is not there."""


def folder_at(path: str) -> Folder:
    """The folder at a path or URI, as Spark accepts it. A relative path is made absolute: workers have other working directories."""
    scheme = _SCHEME.match(path)
    if scheme is None or scheme[1].lower() == "file":
        return LocalFolder(local_path(path).absolute())
    check_lake_address(path)
    name = HADOOP_NAMES.get(scheme[1], scheme[1])
    return RemoteFolder(f"{name}{path[scheme.end(1) :]}".rstrip("/"))


class LocalFolder(LocalFiles, Folder):
    """A folder on a file system that all tasks share with the driver."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.location = str(root)

    def make(self) -> None:
        if not self._root.exists():
            self._root.mkdir(parents=True, exist_ok=True)
            sync(self._root.parent)

    @contextmanager
    def writing(self, path: str) -> Iterator[IO[bytes]]:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def has(self, path: str) -> bool:
        return (self._root / path).exists()

    def settle(self, paths: Iterable[str]) -> None:
        folders = {folder for path in paths for folder in PurePosixPath(path).parents}
        for folder in sorted(folders, key=lambda one: len(one.parts), reverse=True):
            sync(self._root / folder)

    def sync_files(self, paths: Iterable[str]) -> None:
        found = [path for path in paths if (self._root / path).exists()]
        for path in found:
            with suppress(FileNotFoundError):
                sync(self._root / path)
        self.settle(found)

    def move(self, source: str, target: str) -> bool:
        (self._root / target).parent.mkdir(parents=True, exist_ok=True)
        try:
            (self._root / source).rename(self._root / target)
        except FileNotFoundError:
            return False
        return True

    def remove_folder(self, path: str) -> None:
        # A task that still runs may add a file meanwhile; the next batch removes it.
        shutil.rmtree(self._root / path, ignore_errors=True)

    def dataset(self, schema: pyarrow.Schema, partitioning: pyarrow.dataset.Partitioning) -> pyarrow.dataset.Dataset:
        return _dataset(self.location, fs.LocalFileSystem(), schema, partitioning)


class RemoteFolder(RemoteFiles, Folder):
    """A folder on a file system of Arrow's, where closing a file makes it durable."""

    def __init__(self, location: str) -> None:
        super().__init__(*fs.FileSystem.from_uri(location))
        self.location = location

    def make(self) -> None:
        self._system.create_dir(self._root, recursive=True)

    @contextmanager
    def writing(self, path: str) -> Iterator[Any]:
        target = f"{self._root}/{path}"
        self._system.create_dir(target.rpartition("/")[0], recursive=True)
        with self._system.open_output_stream(target) as stream:
            yield stream

    def has(self, path: str) -> bool:
        return bool(self._system.get_file_info(f"{self._root}/{path}").type is not fs.FileType.NotFound)

    def settle(self, paths: Iterable[str]) -> None:
        """Nothing is left to do."""

    def sync_files(self, paths: Iterable[str]) -> None:
        """Nothing is left to do."""

    def move(self, source: str, target: str) -> bool:
        if not self.has(source):
            return False
        self._system.create_dir(f"{self._root}/{target}".rpartition("/")[0], recursive=True)
        with suppress(FileNotFoundError):
            self._system.move(f"{self._root}/{source}", f"{self._root}/{target}")
        return True

    def remove_folder(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._system.delete_dir(f"{self._root}/{path}")

    def dataset(self, schema: pyarrow.Schema, partitioning: pyarrow.dataset.Partitioning) -> pyarrow.dataset.Dataset:
        return _dataset(self._root, self._system, schema, partitioning)


def _dataset(
    root: str, system: fs.FileSystem, schema: pyarrow.Schema, partitioning: pyarrow.dataset.Partitioning
) -> pyarrow.dataset.Dataset:
    return pyarrow.dataset.dataset(root, schema=schema, format="parquet", filesystem=system, partitioning=partitioning)
