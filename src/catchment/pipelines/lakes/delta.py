"""A lake with Delta's log: a batch appears as a whole, and is there exactly once.

The tasks write Parquet files that no log names yet. Then the driver commits them all, together with the transaction (query, batch), in
one entry of the log. A repeated batch finds its transaction there and commits nothing; the files that it wrote stay unnamed until a
vacuum. Of two drivers that commit the same query at once, one fails: Delta rejects a commit whose application transaction another commit
has changed. Other writers, and an optimize or vacuum, may commit in between at any time: then the log is read again, all is checked
again, and the commit is repeated, a bounded number of times.

Gaps
    Object stores and HDFS go through deltalake's and Arrow's own drivers with what these find in the environment.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow
import pyarrow.dataset
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from catchment.pipelines.lakes.file_writing import FileLayout, WrittenFile
from catchment.pipelines.lakes.folder import Folder
from catchment.pipelines.lakes.lake import Lake, Maintenance
from catchment.pipelines.lakes.lake_errors import LakeAway, LakeRefused, explained
from catchment.pipelines.lakes.maintenance import compact, compacted_before_s, describe, remove_unused
from catchment.pipelines.lakes.partitioning import PartitionColumn, check_partition_types
from catchment.pipelines.lakes.schemas import merged, settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG_FOLDER: Final = "_delta_log"
_ATTEMPTS: Final = 20
_LONGEST_PAUSE_S: Final = 0.5
_ENTRIES_TO_SYNC: Final = 50
# A stream commits thousands of times a day: the log is checkpointed often, and old entries are deleted after a week.
_PROPERTIES: Final = {
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.enableExpiredLogCleanup": "true",
}


class DeltaLake(Lake):
    """A Delta table, partitioned by columns that Spark computes."""

    def __init__(self, folder: Folder, partition_by: Sequence[PartitionColumn]) -> None:
        super().__init__(folder, partition_by)
        self._known: DeltaTable | None = None

    def prepare(self, schema: pyarrow.Schema, query: str, batch_id: int) -> FileLayout:
        names = self.partition_columns
        check_partition_types(schema, names)
        with self._explained("prepare"):
            for _ in self._attempts("prepare"):
                if (table := self._table()) is None:
                    self._create(schema)
                else:
                    if (theirs := tuple(table.metadata().partition_columns)) != names:
                        raise LakeRefused(
                            f"the lake {self.location} is partitioned by {_listed(theirs)}, not by {_listed(names)}",
                            "Keep to that, or write a lake of its own at another path.",
                        )
                    if self._add_columns(table, schema):
                        return FileLayout(schema, names)
        raise AssertionError("attempts end with an error")

    def commit(self, written: Sequence[WrittenFile], layout: FileLayout, query: str, batch_id: int) -> bool:
        if not written:
            return True
        actions: list[AddAction | RemoveAction] = [_add(one) for one in written]
        # After an error in here the commit may have been made, so the files must stay.
        with self._explained("commit to"):
            for _ in self._attempts("commit to"):
                table = self._table()
                if table is None:
                    raise LakeRefused(f"the lake {self.location} is gone", "Was it removed while a batch was written?")
                if _transaction(table, query) >= batch_id:
                    return False
                if not self._add_columns(table, layout.schema):
                    continue
                before = table.version()
                try:
                    table.create_write_transaction(
                        actions,
                        mode="append",
                        schema=table.schema(),
                        partition_by=table.metadata().partition_columns,
                        commit_properties=CommitProperties(app_transactions=[Transaction(query, batch_id)]),
                    )
                except CommitFailedError:
                    continue
                table.update_incremental()
                self._make_durable(range(before + 1, table.version() + 1))
                return True
        raise AssertionError("attempts end with an error")

    def last_batch(self, query: str) -> int | None:
        with self._explained("read"):
            table = self._table()
            return None if table is None else table.transaction_version(query)

    def has_batches(self) -> bool:
        table = self._table()
        return table is not None and bool(table.file_uris())

    def dataset(self, version: int | None = None) -> pyarrow.dataset.Dataset:
        with self._explained("read"):
            return self._at(version).to_pyarrow_dataset()

    def read_spark(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        from catchment.pipelines.lakes.spark_io import read_delta

        with self._explained("read"):
            return read_delta(spark, self._at(version))

    def maintain(self) -> Maintenance:
        compacted, written = self.optimize()
        return Maintenance(compacted, written, len(self.vacuum()))

    def optimize(self) -> tuple[int, int]:
        """Rewrite small files as few large ones: how many were read, and how many written."""
        with self._explained("optimize"):
            for _ in self._attempts("optimize"):
                try:
                    return compact(self._at(None))
                except CommitFailedError:
                    continue
        raise AssertionError("attempts end with an error")

    def compacted_before_s(self, now: datetime) -> float | None:
        """How long ago small files were last rewritten; None if the newest entries of the log do not say."""
        with self._explained("read"):
            return compacted_before_s(self._at(None), now)

    def vacuum(self, older_than_h: int | None = None, *, dry_run: bool = False) -> list[str]:
        """Remove files that the table has not named for a week, or the given hours: those of old versions and of failed batches."""
        with self._explained("vacuum"):
            for _ in self._attempts("vacuum"):
                try:
                    return remove_unused(self._at(None), older_than_h, dry_run=dry_run)
                except CommitFailedError:
                    continue
        raise AssertionError("attempts end with an error")

    def describe(self) -> Mapping[str, Any]:
        with self._explained("read"):
            return describe(self._at(None))

    def _table(self) -> DeltaTable | None:
        """The table as of now; None if there is none yet."""
        if self._known is None:
            try:
                self._known = DeltaTable(self.location)
            except TableNotFoundError:
                return None
            # A killed driver may have left its last entry in the page cache only.
            version = self._known.version()
            self._make_durable(range(max(0, version - _ENTRIES_TO_SYNC), version + 1))
        else:
            try:
                self._known.update_incremental()
            except DeltaError:
                # Entries after our version may have been cleaned up since.
                self._known = None
                return self._table()
        return self._known

    def _at(self, version: int | None) -> DeltaTable:
        try:
            return DeltaTable(self.location, version=version)
        except TableNotFoundError as cause:
            raise LakeRefused(f"there is no Delta table at {self.location}", "Write to it first.") from cause

    def _create(self, schema: pyarrow.Schema) -> None:
        self.folder.make()
        names = list(self.partition_columns)
        with _tolerated():
            DeltaTable.create(
                self.location, Schema.from_arrow(schema), mode="ignore", partition_by=names, configuration=_PROPERTIES
            )
        self._make_durable(range(1))

    def _add_columns(self, table: DeltaTable, schema: pyarrow.Schema) -> bool:
        """Whether the table has all columns of the schema. Missing ones are added; then check again."""
        known = known_schema(table)
        added = list(merged(known, schema, self.location))[len(known) :]
        if added:
            with _tolerated():
                table.alter.add_columns(list(Schema.from_arrow(pyarrow.schema(added)).fields))
        return not added

    def _make_durable(self, versions: range) -> None:
        """Sync the log's entries, which deltalake does not: Spark must not finish a batch that a power failure would undo."""
        self.folder.sync_files(f"{LOG_FOLDER}/{version:020d}.json" for version in versions)

    def _attempts(self, verb: str) -> Iterator[int]:
        for attempt in range(_ATTEMPTS):
            yield attempt
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE_S, 0.01 * 2**attempt)))
        raise LakeAway(
            f"cannot {verb} the lake {self.location}: others changed it {_ATTEMPTS} times in between",
            "Try again when fewer writers are at work.",
        )

    def _explained(self, verb: str) -> AbstractContextManager[None]:
        return explained(f"{verb} the lake {self.location}", DeltaError)


def known_schema(table: DeltaTable) -> pyarrow.Schema:
    """The columns of a table in Arrow's types, as a lake spells them."""
    schema = pyarrow.schema(table.schema().to_arrow())
    return pyarrow.schema([pyarrow.field(one.name, settled(one.type, one.name)) for one in schema])


@contextmanager
def _tolerated() -> Iterator[None]:
    """Ignore a conflict with another writer that does the same: the result is checked afterwards."""
    try:
        yield
    except CommitFailedError:
        pass
    except DeltaError as error:
        if "already exists" not in str(error):
            raise


def _transaction(table: DeltaTable, query: str) -> int:
    last = table.transaction_version(query)
    return -1 if last is None else last


def _add(written: WrittenFile) -> AddAction:
    return AddAction(
        path=written.path,
        size=written.size_bytes,
        partition_values=written.partition_values,
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=written.statistics,
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
