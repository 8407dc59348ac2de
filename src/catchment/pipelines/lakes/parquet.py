"""A lake of plain Parquet files in Hive's folders: no log, no library needed to read it, each batch in it exactly once.

A batch is written in three steps:

1. The tasks write their files below `_catchment/queries/<query>/staging/<batch>/`, under names that do not end in `.parquet`,
   and make them durable.
2. The driver stores the list of these files as `_catchment/queries/<query>/<batch>.json`. A list appears whole, durably and
   only once: with it the batch is decided.
3. Each file of the list is renamed to its final path. A file that is no longer in the staging folder has been renamed before.

A crash before the second step leaves only files in a staging folder, and the batch is repeated. After a crash behind
it, reading the query's last batch first finishes the newest list; the repeated batch then finds itself decided and
removes what it wrote. Only the newest list can be unfinished, because the next batch begins with finishing it. Two drivers of one query
cannot both decide a batch. A driver that was suspended while others went on finds newer lists beside the one it has just
stored and removes it; no other process has read it, because lists are removed only long after newer ones are there.

A reader of `**/*.parquet` sees only complete files of decided batches.

The columns are kept in `_catchment/schema/<number>.json`, the highest number counts.

Gaps
    The files of one batch appear one after the other, not at once. There are no versions, and nothing is compacted. On file
    systems other than the local one, two drivers that decide a batch in the same instant may both think that they were first.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import pyarrow
import pyarrow.dataset
import pyarrow.ipc

from catchment.pipelines.lakes.file_writing import FileLayout, WrittenFile
from catchment.pipelines.lakes.folder import Folder
from catchment.pipelines.lakes.lake import Lake, Maintenance
from catchment.pipelines.lakes.lake_errors import LakeAway, LakeRefused, explained
from catchment.pipelines.lakes.partitioning import PartitionColumn, check_partition_types
from catchment.pipelines.lakes.schemas import merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN_FOLDER: Final = "_catchment"
_QUERIES: Final = f"{OWN_FOLDER}/queries"
_STAGED: Final = ".staged"
_FINAL: Final = ".parquet"
_LIST: Final = ".json"
_LISTS_KEPT: Final = 100


class ParquetLake(Lake):
    """Parquet files, partitioned by columns that Spark computes."""

    def __init__(self, folder: Folder, partition_by: Sequence[PartitionColumn]) -> None:
        super().__init__(folder, partition_by)
        self._columns = StoredColumns(folder, f"{OWN_FOLDER}/schema")

    def prepare(self, schema: pyarrow.Schema, query: str, batch_id: int) -> FileLayout:
        names = self.partition_columns
        check_partition_types(schema, names)
        with self._explained("prepare"):
            self.folder.make()
            self._columns.add(schema, names)
        return FileLayout(schema, names, prefix=_staging(query, batch_id), suffix=_STAGED)

    def commit(self, written: Sequence[WrittenFile], layout: FileLayout, query: str, batch_id: int) -> bool:
        with self._explained("commit to"):
            decided = not written or self._decide([one.path for one in written], query, batch_id)
            if (newest := self._finish_newest(query)) is not None:
                self._tidy(query, newest)
        return decided

    def last_batch(self, query: str) -> int | None:
        with self._explained("read"):
            return self._finish_newest(query)

    def has_batches(self) -> bool:
        return any(self._decided(unquote(name)) for name in self.folder.names(_QUERIES))

    def dataset(self, version: int | None = None) -> pyarrow.dataset.Dataset:
        self._refuse_versions(version)
        with self._explained("read"):
            schema, partitions = self._columns.known()
            if schema is None:
                raise LakeRefused(f"there is no lake at {self.location}", "Write to it first.")
            kinds = pyarrow.schema([schema.field(name) for name in partitions])
            hive = pyarrow.dataset.HivePartitioning(kinds, null_fallback="__HIVE_DEFAULT_PARTITION__")
            return self.folder.dataset(schema, hive)

    def read_spark(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        self._refuse_versions(version)
        schema = self.dataset().schema
        return spark.read.schema(from_arrow_schema(schema)).parquet(self.location)

    def maintain(self) -> Maintenance:
        raise LakeRefused(f"the lake {self.location} is plain Parquet, which is not compacted", 'Use format="delta".')

    def describe(self) -> Mapping[str, Any]:
        rows = self.dataset()
        _, partitions = self._columns.known()
        fragments = list(rows.get_fragments())
        queries = [unquote(name) for name in sorted(self.folder.names(_QUERIES))]
        return {
            "format": "parquet",
            "location": self.location,
            "rows": sum(fragment.count_rows() for fragment in fragments),
            "files": len(fragments),
            "bytes": sum(rows.filesystem.get_file_info(fragment.path).size for fragment in fragments),
            "partition_by": list(partitions),
            "columns": {field.name: str(field.type) for field in rows.schema},
            "batches": {query: max(self._decided(query), default=None) for query in queries},
        }

    def _decide(self, staged: Sequence[str], query: str, batch_id: int) -> bool:
        """Store the list; False if there is one already, or a newer batch."""
        gone = [path for path in staged if not self.folder.has(path)]
        if gone and batch_id > max(self._decided(query), default=-1):
            # After the decision, a missing file counts as one that was already renamed.
            raise LakeAway(
                f"the lake {self.location} has lost {gone[0]} before its batch was decided", "Repeat the batch."
            )
        try:
            self.folder.create(_list(query, batch_id), json.dumps({"files": list(staged)}))
        except FileExistsError:
            return False
        if self._decided(query)[-1] > batch_id:
            self.folder.remove(_list(query, batch_id))
            return False
        return True

    def _finish_newest(self, query: str) -> int | None:
        """Only the newest list may be unfinished."""
        decided = self._decided(query)
        if not decided:
            return None
        batch_id = decided[-1]
        staging = _staging(query, batch_id)
        paths = []
        for staged in json.loads(self.folder.read(_list(query, batch_id)))["files"]:
            path = staged.removeprefix(staging).removesuffix(_STAGED) + _FINAL
            if self.folder.move(staged, path):
                paths.append(path)
        self.folder.settle(paths)
        return batch_id

    def _tidy(self, query: str, batch_id: int) -> None:
        """Remove the files of failed attempts at finished batches, and old lists."""
        for name in self.folder.names(f"{_QUERIES}/{quote(query, safe='')}/staging"):
            if name.isdecimal() and int(name) <= batch_id:
                self.folder.remove_folder(_staging(query, int(name)))
        for old in self._decided(query)[:-_LISTS_KEPT]:
            self.folder.remove(_list(query, old))

    def _decided(self, query: str) -> list[int]:
        names = self.folder.names(f"{_QUERIES}/{quote(query, safe='')}")
        stems = [name.removesuffix(_LIST) for name in names if name.endswith(_LIST)]
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def _refuse_versions(self, version: int | None) -> None:
        if version is not None:
            raise LakeRefused(f"the lake {self.location} is plain Parquet and has no versions", 'Use format="delta".')

    def _explained(self, verb: str) -> AbstractContextManager[None]:
        return explained(f"{verb} the lake {self.location}")


def _staging(query: str, batch_id: int) -> str:
    return f"{_QUERIES}/{quote(query, safe='')}/staging/{batch_id}/"


def _list(query: str, batch_id: int) -> str:
    return f"{_QUERIES}/{quote(query, safe='')}/{batch_id}{_LIST}"


_ATTEMPTS: Final = 20


class StoredColumns:
    """Columns in numbered files beside the lake. A change is a file of the next number, created only once: no change is lost."""

    def __init__(self, folder: Folder, location: str) -> None:
        self._folder = folder
        self._location = location

    def known(self) -> tuple[pyarrow.Schema | None, tuple[str, ...]]:
        """All columns, and those that the lake is partitioned by; None before the first batch."""
        number = self._newest()
        if number < 0:
            return None, ()
        stored = json.loads(self._folder.read(f"{self._location}/{number}.json"))
        schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(stored["schema"])))
        return schema, tuple(stored["partition_by"])

    def add(self, schema: pyarrow.Schema, partition_by: tuple[str, ...]) -> None:
        """Add new columns; LakeRefused where they do not fit the known ones."""
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
                self._folder.create(f"{self._location}/{number + 1}.json", _text(wanted, partition_by))
            except FileExistsError:
                continue
            return
        raise LakeAway(f"the columns of the lake {self._folder.location} change all the time", "Try again later.")

    def _newest(self) -> int:
        stems = [name.removesuffix(".json") for name in self._folder.names(self._location)]
        return max((int(stem) for stem in stems if stem.isdecimal()), default=-1)


def _text(schema: pyarrow.Schema, partition_by: tuple[str, ...]) -> str:
    """The schema in Arrow's own serialization, which loses nothing, and as text for people."""
    exact = base64.b64encode(schema.serialize().to_pybytes()).decode()
    return json.dumps({"columns": str(schema).splitlines(), "partition_by": partition_by, "schema": exact}, indent=1)
