"""Maintenance of a Delta table beside its writers: compaction, vacuum, and a description.

Every batch leaves small files. Compaction reads files and commits others that hold the same rows: appends do not conflict with it, and of
two compactions one fails and is repeated. A vacuum removes only files that no entry of the log has named for a while. What a task has
just written is not named either, until its batch is committed: so nothing younger than an hour is ever removed, and a week is the rule.

A run may be shorter than the time between two compactions. So the lake's own log says when the last one was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow
import pyarrow.compute
from deltalake import DeltaTable, WriterProperties

from catchment.pipelines.lakes.lake_errors import LakeError, LakeRefused

if TYPE_CHECKING:
    from catchment.pipelines.lakes.delta import DeltaLake

SHORTEST_AGE_H: Final = 1
_TARGET_BYTES: Final = 128 << 20
_ENTRIES_TO_SEARCH: Final = 150
"""The entries of a stream that commits every five seconds, in about a quarter of an hour."""
_COMPACTION: Final = "OPTIMIZE"


def compact(table: DeltaTable) -> tuple[int, int]:
    """How many files were replaced, and by how many."""
    done = table.optimize.compact(
        target_size=_TARGET_BYTES, max_concurrent_tasks=1, writer_properties=WriterProperties(compression="ZSTD")
    )
    return done["numFilesRemoved"], done["numFilesAdded"]


def compacted_before_s(table: DeltaTable, now: datetime) -> float | None:
    """How long ago small files were last rewritten; None if the newest entries of the log do not say."""
    entries = table.history(_ENTRIES_TO_SEARCH)
    times_ms = [int(entry["timestamp"]) for entry in entries if entry.get("operation") == _COMPACTION]
    return now.timestamp() - max(times_ms) / 1000 if times_ms else None


def remove_unused(table: DeltaTable, older_than_h: int | None, *, dry_run: bool) -> list[str]:
    """The files that were removed, or would be."""
    if older_than_h is not None and older_than_h < SHORTEST_AGE_H:
        raise LakeRefused(
            f"a vacuum of files older than {older_than_h} h might take those of a batch that is being written",
            f"Let files be at least {SHORTEST_AGE_H} h old.",
        )
    return table.vacuum(
        retention_hours=older_than_h, enforce_retention_duration=older_than_h is None, dry_run=dry_run, full=True
    )


def describe(table: DeltaTable) -> Mapping[str, Any]:
    files = pyarrow.table(table.get_add_actions(flatten=True))
    sizes = files.column("size_bytes")
    rows = pyarrow.compute.sum(files.column("num_records")).as_py() if "num_records" in files.column_names else None
    schema = pyarrow.schema(table.schema().to_arrow())
    return {
        "format": "delta",
        "location": table.table_uri,
        "version": table.version(),
        "rows": rows or 0,
        "files": files.num_rows,
        "bytes": pyarrow.compute.sum(sizes).as_py() or 0,
        "partition_by": list(table.metadata().partition_columns),
        "columns": {field.name: str(field.type) for field in schema},
    }


_logger = logging.getLogger(__name__)


class MaintenanceSchedule:
    """When a lake is compacted, by the query that writes it."""

    def __init__(self, lake: DeltaLake, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lake = lake
        self._every_s = every_s
        self._clock = clock
        self._due_s: float | None = None

    def run_if_due(self) -> None:
        """Compact the lake if that is due; call it after each batch."""
        try:
            if self._due_s is None:
                age_s = self._lake.compacted_before_s(datetime.now(UTC))
                self._due_s = self._clock() + (0.0 if age_s is None else max(0.0, self._every_s - age_s))
            if self._clock() < self._due_s:
                return
            self._due_s = self._clock() + self._every_s
            self._lake.maintain()
        except LakeError as error:
            # The rows are stored. The next batch reports a lake that is away.
            _logger.warning("lake maintenance failed and is tried again later: %s", error)
