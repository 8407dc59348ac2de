"""What every lake can do, whatever its format.

A batch is written in three steps: the lake says how its files are to be laid out, the tasks of a Spark job write them where no reader
looks yet, and the driver commits them together with the number of the batch.

The owners of a lake are in its own folder, `_catchment/owners/<number>.json`, of which the newest counts. A file is created only if there
is none of its name, so of two claims at once one comes first, and the other sees it. Readers of a lake skip folders whose names begin
with an underscore.

Gaps
    An object store that Arrow reaches does not create a file and check for it in one step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import TypeAdapter

from catchment.pipelines.lakes.file_writing import FileLayout, WrittenFile
from catchment.pipelines.lakes.folder import Folder
from catchment.pipelines.lakes.lake_errors import LakeAway, LakeRefused
from catchment.pipelines.lakes.partitioning import PartitionColumn, with_partition_columns
from catchment.pipelines.lakes.schemas import arrow_schema
from catchment.pipelines.ownership.owner import Asking, Found, Owner

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.dataset
    from pyspark.sql import DataFrame, SparkSession


class Maintenance(NamedTuple):
    """The result of a maintenance run."""

    files_compacted: int
    files_written: int
    files_removed: int


class Lake(ABC):
    """A folder of Parquet files that only grows, by whole batches."""

    def __init__(self, folder: Folder, partition_by: Sequence[PartitionColumn]) -> None:
        self.folder = folder
        self.location = folder.location
        self._partition_by = tuple(partition_by)
        self._owners = LakeOwners(folder)

    def write(self, rows: DataFrame, query: str, batch_id: int) -> bool:
        """Add the rows of a query's batch; False, without computing anything, if this batch or a later one is already there."""
        from catchment.pipelines.lakes.spark_io import write_by_tasks

        self.require_owner()
        if (last := self.last_batch(query)) is not None and last >= batch_id:
            return False
        partitioned = with_partition_columns(rows, self._partition_by)
        layout = self.prepare(arrow_schema(partitioned.schema), query, batch_id)
        written = write_by_tasks(partitioned, self.folder, layout)
        self.require_owner()
        return self.commit(written, layout, query, batch_id)

    def found(self, asking: Asking) -> Found:
        """The owners of the lake, and which queries it has rows of. Nothing is created."""
        with self._explained("read"):
            recorded = self._owners.all()
            last = self.last_batch(asking.query_id) if asking.query_id else None
            is_known = any(self.last_batch(one) is not None for one in asking.home_ids)
            return Found(recorded, last, not is_known and self.has_batches())

    def claim(self, owner: Owner, asking: Asking, check: Callable[[Found], None]) -> None:
        """Record an owner after a check of the current state. From then on, `write` rejects a batch once another claim was made."""
        found = self.found(asking)
        check(found)
        with self._explained("claim"):
            self.folder.make()
            self._owners.save(owner, found.owners)

    def require_owner(self) -> None:
        """Raise if the lake was claimed through this object, and another claim has replaced that one."""
        with self._explained("read"):
            self._owners.require()

    def owners(self) -> tuple[Owner, ...]:
        """The queries that own the lake."""
        with self._explained("read"):
            return self._owners.all()

    def foreign_names(self) -> list[str]:
        """Names in the folder that are no part of a lake: its files end in `.parquet`, its folders are partitions or begin with `_`."""
        with self._explained("read"):
            names = self.folder.names("")
        return [one for one in names if not (one.startswith(("_", ".")) or one.endswith(".parquet") or "=" in one)]

    def drop(self) -> None:
        """Delete the lake with all that is in its folder."""
        with self._explained("delete"):
            self.folder.remove_folder("")
            if left := self.folder.names(""):
                raise LakeAway(f"{left[0]} of the lake {self.location} cannot be deleted", "Check who may write there.")

    @abstractmethod
    def has_batches(self) -> bool:
        """Whether batches of any query are in the lake."""

    @abstractmethod
    def _explained(self, verb: str) -> AbstractContextManager[None]:
        """Turns errors inside the block into errors of lakes."""

    @abstractmethod
    def prepare(self, schema: pyarrow.Schema, query: str, batch_id: int) -> FileLayout:
        """Create the lake if there is none, add missing columns, and return the layout of a batch's files."""

    @abstractmethod
    def commit(self, written: Sequence[WrittenFile], layout: FileLayout, query: str, batch_id: int) -> bool:
        """Make files part of the lake; False if the batch is already there. Without files nothing is committed."""

    @abstractmethod
    def last_batch(self, query: str) -> int | None:
        """The number of the query's newest batch in the lake; batches without rows leave no trace."""

    @abstractmethod
    def dataset(self, version: int | None = None) -> pyarrow.dataset.Dataset:
        """All rows as an Arrow dataset, which DuckDB and Polars scan without loading it."""

    @abstractmethod
    def read_spark(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """All rows, as of now or of a version of the lake."""

    @abstractmethod
    def maintain(self) -> Maintenance:
        """Compact small files and remove unused ones; safe beside writers and readers."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """Facts for people and scripts; the values are as JSON takes them."""

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self._partition_by)

    def read_arrow(self, version: int | None = None) -> pyarrow.Table:
        return self.dataset(version).to_table()


_FOLDER: Final = "_catchment/owners"
_SUFFIX: Final = ".json"
_LISTS_KEPT: Final = 2
_OWNERS: Final = TypeAdapter(tuple[Owner, ...])


class LakeOwners:
    """The owners of one lake."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._claimed: Owner | None = None

    def all(self) -> tuple[Owner, ...]:
        """The queries that own the lake."""
        numbers = self._numbers()
        return _OWNERS.validate_json(self._folder.read(_path(numbers[-1]))) if numbers else ()

    def save(self, owner: Owner, before: tuple[Owner, ...]) -> None:
        """Record an owner beside those that were read before; LakeAway if another claim came in between."""
        numbers = self._numbers()
        if self.all() != before:
            raise self._conflict()
        others = [one for one in before if (one.pipeline, one.query) != (owner.pipeline, owner.query)]
        number = numbers[-1] + 1 if numbers else 0
        try:
            self._folder.create(_path(number), _OWNERS.dump_json((*others, owner)).decode())
        except FileExistsError as cause:
            raise self._conflict() from cause
        self._claimed = owner
        for old in numbers[:-_LISTS_KEPT]:
            self._folder.remove(_path(old))

    def require(self) -> None:
        """Raise if a claim was made, and another has replaced it."""
        if self._claimed is not None and self._claimed not in self.all():
            raise LakeRefused(
                f"the lake {self._folder.location} is now owned by another run, so this one writes no more",
                "Run a pipeline once: stop this run, or the other one.",
            )

    def _numbers(self) -> list[int]:
        stems = [one.removesuffix(_SUFFIX) for one in self._folder.names(_FOLDER) if one.endswith(_SUFFIX)]
        return sorted(int(one) for one in stems if one.isdecimal())

    def _conflict(self) -> LakeAway:
        return LakeAway(f"another run claims the lake {self._folder.location} at this moment", "Try again.")


def _path(number: int) -> str:
    return f"{_FOLDER}/{number}{_SUFFIX}"
