"""The lists of transactions in the query's checkpoint: `sinks/catchment/<batch>-<number>.json`.

A list appears whole or not at all, only once, and survives a loss of power as soon as `add` returns. Where a batch is written
in several parts, each has a folder of its own, which is named after it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from catchment.spark.checkpoint.files import TEMPORARY, Files, files_at
from catchment.spark.checkpoint.progress import SparkCheckpoint
from catchment.spark.sink.commit_list import CommitList
from catchment.spark.sink.two_phase import AlreadyDecided

_FOLDER: Final = "sinks/catchment"
_LOOKS: Final = 10
_LIST: Final = re.compile(r"(\d+)-(\d+)\.json")


class Ledger:
    """The lists of one checkpoint."""

    def __init__(self, files: Files, sink_name: str | None = None) -> None:
        self._files = files
        self._folder = _FOLDER if sink_name is None else f"{_FOLDER}-{sink_name}"
        self.checkpoint = SparkCheckpoint(files)

    @classmethod
    def at(cls, checkpoint: str, sink_name: str | None = None) -> Ledger:
        """The ledger of a checkpoint, given as Spark takes it: a path, or a URI."""
        return cls(files_at(checkpoint), sink_name)

    def query_id(self) -> str | None:
        """The query's; None if Spark has no checkpoint here."""
        return self.checkpoint.query_id()

    def newest(self) -> list[CommitList]:
        for _ in range(_LOOKS):
            found = self._found()
            lists = self._read(found, max(batch_id for batch_id, _ in found)) if found else []
            # What is removed between listing and reading has a successor by then.
            if lists or not found:
                break
        return lists

    def of(self, batch_id: int) -> list[CommitList]:
        return self._read(self._found(), batch_id)

    def is_finished(self, batch_id: int) -> bool:
        """Spark removes old commit files, so that of a later batch counts as well."""
        newest = self.checkpoint.newest_finished()
        return newest is not None and newest >= batch_id

    def add(self, decided: CommitList) -> None:
        path = self._path(decided.batch_id, decided.number)
        try:
            self._files.create(path, decided.to_json())
        except (FileExistsError, FileNotFoundError) as cause:
            # Only another run, after it has decided, removes a file that is still being written.
            raise AlreadyDecided(path) from cause

    def remove(self, decided: CommitList) -> None:
        self._files.remove(self._path(decided.batch_id, decided.number))

    def forget_before(self, batch_id: int) -> None:
        for name in self._files.names(self._folder):
            found = _LIST.fullmatch(name)
            if name.startswith(TEMPORARY) or (found and int(found[1]) < batch_id):
                self._files.remove(f"{self._folder}/{name}")

    def _found(self) -> list[tuple[int, int]]:
        matches = [_LIST.fullmatch(name) for name in self._files.names(self._folder)]
        return sorted((int(one[1]), int(one[2])) for one in matches if one)

    def _read(self, found: list[tuple[int, int]], batch_id: int) -> list[CommitList]:
        lists = []
        for path in [self._path(batch, number) for batch, number in found if batch == batch_id]:
            # Another driver may have removed it since, for its batch is done.
            with suppress(FileNotFoundError):
                lists.append(CommitList.from_json(self._files.read(path), path))
        return lists

    def _path(self, batch_id: int, number: int) -> str:
        return f"{self._folder}/{batch_id}-{number}.json"
