"""The lists of transactions in the query's checkpoint: `sinks/catchment/<batch>-<number>.json`.

A list appears whole or not at all, only once, and survives a loss of power as soon as `add` returns.

Gaps
    On file systems other than the local one, whether a list is there already is checked before it is written, not in the
    same step: of two drivers that decide one batch in the same instant, both may think that they were first.
"""

from __future__ import annotations

import os
import re
import uuid
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyarrow import fs

from catchment.spark.commit_list import CommitList
from catchment.spark.two_phase import AlreadyDecided

_FOLDER: Final = "sinks/catchment"
_SPARKS_COMMITS: Final = "commits"
_SPARKS_METADATA: Final = "metadata"
_LIST: Final = re.compile(r"(\d+)-(\d+)\.json")
_TEMPORARY: Final = ".writing-"
_FILE_SCHEME: Final = re.compile(r"^file:(//[^/]*)?", re.IGNORECASE)
_HADOOP_NAMES: Final = {"s3a": "s3", "s3n": "s3"}


class Files(ABC):
    """What a ledger needs of a file system; paths are relative to the checkpoint."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The files in a folder; none if it is not there."""

    @abstractmethod
    def read(self, path: str) -> str: ...

    @abstractmethod
    def create(self, path: str, text: str) -> None:
        """Write a file for good; AlreadyDecided if there is one."""

    @abstractmethod
    def remove(self, path: str) -> None: ...


class Ledger:
    """The lists of one checkpoint."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @classmethod
    def at(cls, checkpoint: str) -> Ledger:
        """The ledger of a checkpoint, given as Spark takes it: a path, or a URI."""
        address = urlsplit(checkpoint)
        if address.scheme in ("", "file"):
            # Hadoop takes the rest of such a URI as it is: what is escaped stays so.
            return cls(LocalFiles(Path(_FILE_SCHEME.sub("", checkpoint))))
        uri = address._replace(scheme=_HADOOP_NAMES.get(address.scheme, address.scheme)).geturl()
        return cls(RemoteFiles(*fs.FileSystem.from_uri(uri)))

    def is_sparks(self) -> bool:
        """Whether Spark has its own part of the checkpoint there too: it writes that first."""
        try:
            self._files.read(_SPARKS_METADATA)
        except FileNotFoundError:
            return False
        return True

    def newest(self) -> list[CommitList]:
        found = self._found()
        return self._read(found, max(batch_id for batch_id, _ in found)) if found else []

    def of(self, batch_id: int) -> list[CommitList]:
        return self._read(self._found(), batch_id)

    def is_finished(self, batch_id: int) -> bool:
        """Spark removes old notes of its own, so one of a later batch will do."""
        return any(name.isdecimal() and int(name) >= batch_id for name in self._files.names(_SPARKS_COMMITS))

    def add(self, decided: CommitList) -> None:
        self._files.create(_path(decided.batch_id, decided.number), decided.to_json())

    def remove(self, decided: CommitList) -> None:
        self._files.remove(_path(decided.batch_id, decided.number))

    def forget_before(self, batch_id: int) -> None:
        for name in self._files.names(_FOLDER):
            found = _LIST.fullmatch(name)
            if name.startswith(_TEMPORARY) or (found and int(found[1]) < batch_id):
                self._files.remove(f"{_FOLDER}/{name}")

    def _found(self) -> list[tuple[int, int]]:
        matches = [_LIST.fullmatch(name) for name in self._files.names(_FOLDER)]
        return sorted((int(one[1]), int(one[2])) for one in matches if one)

    def _read(self, found: list[tuple[int, int]], batch_id: int) -> list[CommitList]:
        lists = []
        for path in [_path(batch, number) for batch, number in found if batch == batch_id]:
            # Another driver may have removed it since, for its batch is done.
            with suppress(FileNotFoundError):
                lists.append(CommitList.from_json(self._files.read(path), path))
        return lists


def _path(batch_id: int, number: int) -> str:
    return f"{_FOLDER}/{batch_id}-{number}.json"


class LocalFiles(Files):
    """The local file system, where a hard link is made only if there is no file of its name."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self._root / folder)
        except FileNotFoundError:
            return []

    def read(self, path: str) -> str:
        return (self._root / path).read_text()

    def create(self, path: str, text: str) -> None:
        target = self._root / path
        temporary = target.with_name(f"{_TEMPORARY}{uuid.uuid4()}")
        if not target.parent.exists():
            self._make(target.parent)
        try:
            with temporary.open("x") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, target)
        except FileExistsError as cause:
            raise AlreadyDecided(path) from cause
        finally:
            temporary.unlink(missing_ok=True)
        _sync(target.parent)

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def _make(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # A new folder is an entry in the one above it, up to the checkpoint, which Spark has made.
        while folder != self._root:
            folder = folder.parent
            _sync(folder)


class RemoteFiles(Files):
    """Any file system that Arrow reaches: object stores, HDFS."""

    def __init__(self, system: fs.FileSystem, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")

    def names(self, folder: str) -> list[str]:
        selector = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        return [info.base_name for info in self._system.get_file_info(selector)]

    def read(self, path: str) -> str:
        with self._system.open_input_stream(f"{self._root}/{path}") as stream:
            return str(stream.read(), "utf-8")

    def create(self, path: str, text: str) -> None:
        target = f"{self._root}/{path}"
        folder = target.rpartition("/")[0]
        if self._system.get_file_info(target).type is not fs.FileType.NotFound:
            raise AlreadyDecided(path)
        self._system.create_dir(folder, recursive=True)
        temporary = f"{folder}/{_TEMPORARY}{uuid.uuid4()}"
        with self._system.open_output_stream(temporary) as stream:
            stream.write(text.encode())
        self._system.move(temporary, target)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._system.delete_file(f"{self._root}/{path}")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
