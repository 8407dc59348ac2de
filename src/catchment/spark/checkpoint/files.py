"""The files of a query's checkpoint, wherever it lies: on the local file system, or anywhere that Arrow reaches."""

from __future__ import annotations

import errno
import os
import re
import uuid
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from catchment.client.errors import SettingsError

TEMPORARY: Final = ".writing-"
"""What the names of files begin with that are not whole yet."""
_FILE_SCHEME: Final = re.compile(r"^file:(//[^/]*)?", re.IGNORECASE)
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
HADOOP_NAMES: Final = {"s3a": "s3", "s3n": "s3"}
"""Schemes as Hadoop has them, and as Arrow does."""


class Files(ABC):
    """What is needed of a file system; paths are relative to the checkpoint."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The files in a folder; none if it is not there."""

    @abstractmethod
    def read(self, path: str) -> str: ...

    @abstractmethod
    def create(self, path: str, text: str) -> None:
        """Write a file for good. FileExistsError if there is one, FileNotFoundError if another process removed the temporary file."""

    @abstractmethod
    def remove(self, path: str) -> None: ...


def files_at(checkpoint: str) -> Files:
    """Those of a checkpoint, given as Spark takes it: a path, or a URI."""
    address = urlsplit(checkpoint)
    if address.scheme in ("", "file"):
        return LocalFiles(local_path(checkpoint))
    # Arrow's file systems take a while to load, and most checkpoints are local.
    from catchment.spark.checkpoint.remote_files import RemoteFiles

    uri = address._replace(scheme=HADOOP_NAMES.get(address.scheme, address.scheme)).geturl()
    return RemoteFiles.at(uri)


def local_path(given: str) -> Path:
    """A path, or a URI with the scheme `file`, of which Hadoop takes the rest as it is: what is escaped stays so."""
    return Path(_FILE_SCHEME.sub("", given))


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
        temporary = target.with_name(f"{TEMPORARY}{uuid.uuid4()}")
        if not target.parent.exists():
            self._make(target.parent)
        try:
            with temporary.open("x") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            _link(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        sync(target.parent)

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def _make(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # A new folder is an entry in the one above it, up to the checkpoint, which Spark has made.
        while folder != self._root:
            folder = folder.parent
            sync(folder)


def _link(temporary: Path, target: Path) -> None:
    try:
        os.link(temporary, target)
    except OSError as cause:
        if cause.errno not in _NO_LINKS:
            raise
        raise SettingsError(
            f"the file system that holds {target.parent} has no hard links, by which a file is created only once",
            "Move it to a file system that has them, such as ext4, XFS or APFS, or to an object store.",
        ) from cause


def sync(folder: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
