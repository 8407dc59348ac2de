"""The files of a checkpoint that is not on the local file system.

Gaps
    Whether a file is there already is checked before it is written, not in the same step: of two drivers that create one file in
    the same instant, both may think that they were first.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from pyarrow import fs

from catchment.spark.checkpoint.files import TEMPORARY, Files


class RemoteFiles(Files):
    """Any file system that Arrow reaches: object stores, HDFS."""

    def __init__(self, system: fs.FileSystem, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")

    @classmethod
    def at(cls, uri: str) -> RemoteFiles:
        return cls(*fs.FileSystem.from_uri(uri))

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
            raise FileExistsError(path)
        self._system.create_dir(folder, recursive=True)
        temporary = f"{folder}/{TEMPORARY}{uuid.uuid4()}"
        with self._system.open_output_stream(temporary) as stream:
            stream.write(text.encode())
        self._system.move(temporary, target)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._system.delete_file(f"{self._root}/{path}")
