"""The columns of a lake that has no log, kept in numbered files beside it."""

from __future__ import annotations

import base64
import json
from typing import Final

import pyarrow
import pyarrow.ipc

from catchment.pipelines.lakes.errors import LakeAway, LakeRefused
from catchment.pipelines.lakes.folder import Folder
from catchment.pipelines.lakes.schemas import merged

_ATTEMPTS: Final = 20


class StoredColumns:
    """Every change is a file of the next number, which can be created only once; so no change is lost to another."""

    def __init__(self, folder: Folder, place: str) -> None:
        self._folder = folder
        self._place = place

    def known(self) -> tuple[pyarrow.Schema | None, tuple[str, ...]]:
        """All columns, and those that the lake is partitioned by; None before the first batch."""
        number = self._newest()
        if number < 0:
            return None, ()
        stored = json.loads(self._folder.read(f"{self._place}/{number}.json"))
        schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(stored["schema"])))
        return schema, tuple(stored["partition_by"])

    def add(self, schema: pyarrow.Schema, partition_by: tuple[str, ...]) -> None:
        """Note columns that are new; LakeRefused where they do not go with those that are known."""
        for _ in range(_ATTEMPTS):
            number = self._newest()
            known, theirs = self.known()
            if known is not None and theirs != partition_by:
                raise LakeRefused(
                    f"the lake {self._folder.location} is partitioned by {theirs}, not by {partition_by}",
                    "Keep to that, or write a lake of its own at another path.",
                )
            wanted = schema if known is None else merged(known, schema, self._folder.location)
            if known is not None and len(wanted) == len(known):
                return
            try:
                self._folder.create(f"{self._place}/{number + 1}.json", _text(wanted, partition_by))
            except FileExistsError:
                continue
            return
        raise LakeAway(f"the columns of the lake {self._folder.location} change all the time", "Try again later.")

    def _newest(self) -> int:
        stems = [name.removesuffix(".json") for name in self._folder.names(self._place)]
        return max((int(stem) for stem in stems if stem.isdecimal()), default=-1)


def _text(schema: pyarrow.Schema, partition_by: tuple[str, ...]) -> str:
    """Arrow's own form, which loses nothing, beside one that people can read."""
    exact = base64.b64encode(schema.serialize().to_pybytes()).decode()
    return json.dumps({"columns": str(schema).splitlines(), "partition_by": partition_by, "schema": exact}, indent=1)
