"""The contract of every real-time store.

A store takes the rows of a batch and the batch's number in one transaction, so that a batch that is repeated after a crash
changes nothing. Readers see a table through a view with two layers: windows that end at or before a moment T come from the
batch layer, later ones from the speed layer, both of the same version. T and the version change together, so a
reader sees either the old state or the new one.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final, Self

import pyarrow
from pyarrow import compute

from catchment.pipelines.ownership.owner import Asking, Found, Owner
from catchment.pipelines.stores.definition import Definition, Layout, Version, Written
from catchment.pipelines.stores.rows import Batch, judged, reasons_against
from catchment.pipelines.stores.store_errors import StoreRefused

__all__ = ["Clock", "Layout", "RealTimeStore", "Version", "Written"]

Clock = Callable[[], datetime]
Check = Callable[[Found], None]
"""Checks what is found, and raises if it may not be claimed."""


class RealTimeStore(abc.ABC):
    """One table of a store. Methods raise `StoreAway` where a repetition may help, and `StoreRefused` where it cannot.

    It may be used from any thread, by one at a time: others wait.
    """

    @abc.abstractmethod
    def prepare(self, schema: pyarrow.Schema, layout: Layout) -> None:
        """Create a version of the table; to an existing one, only nullable columns may be added."""

    @abc.abstractmethod
    def write(self, rows: pyarrow.Table, query: str, batch_id: int, version: int) -> bool:
        """Write a batch to the speed layer, once: False, and nothing happens, if the query has already written it.

        With a key, a row replaces the one that has its key, and the last of a batch wins; where a column `__deleted` is true,
        the row is deleted. Without a key, rows are added. `query` is a name that belongs to one checkpoint for ever.
        """

    def unstorable(self, rows: pyarrow.Table, definition: Definition) -> pyarrow.ChunkedArray:
        """For each row, why this table can never store it, for people to read; null for a row that it can.

        The result depends on the row alone, so a repeated batch gives the same. `write` rejects a batch with such a row.
        The table need not be prepared for this.
        """
        return judged(rows, lambda others: self.reasons_against(others, definition))

    def reasons_against(self, rows: pyarrow.Table, definition: Definition) -> pyarrow.ChunkedArray:
        """The same for rows whose text is UTF-8."""
        return reasons_against(rows, definition)

    @abc.abstractmethod
    def last_batch(self, query: str) -> int | None:
        """The newest batch that this query has written to the table."""

    @abc.abstractmethod
    def read(self) -> pyarrow.Table:
        """What a reader sees now, as of one moment."""

    @abc.abstractmethod
    def expire(self, now: datetime) -> int:
        """Delete rows older than the ttl, by the end of their window or else by when they were written; how many."""

    @abc.abstractmethod
    def write_batch_layer(self, rows: pyarrow.Table, version: int) -> None:
        """Write recomputed rows to the batch layer of a version, where no reader sees them before `switch`."""

    @abc.abstractmethod
    def clear_batch_layer(self, version: int) -> None:
        """Delete what an unfinished recomputation has left: all of the batch layer that no reader sees."""

    @abc.abstractmethod
    def switch(self, version: int, until: datetime | None, *, unless_after: Written | None = None) -> bool:
        """Show a version: windows up to `until` from its batch layer, later ones from its speed layer, atomically.

        False, and nothing happens, if a query has written a later batch than `unless_after`: its rows would be missing.
        """

    @abc.abstractmethod
    def show_new(self, version: int) -> bool:
        """Show a version from its speed layer alone, for the first time.

        False, and nothing happens, if it was shown before, even if it was rolled back, or if a later
        one is shown.
        """

    @abc.abstractmethod
    def definition(self, version: int) -> Definition:
        """The columns of a version, and its layout."""

    @abc.abstractmethod
    def versions(self) -> list[Version]:
        """The versions of the table, oldest first."""

    @abc.abstractmethod
    def drop_version(self, version: int) -> None:
        """Delete both layers of a version that is not shown."""

    @abc.abstractmethod
    def found(self, version: int, asking: Asking) -> Found:
        """The owners of a version of the table, and which queries it has rows of. Nothing is created."""

    @abc.abstractmethod
    def claim(self, owner: Owner, asking: Asking, check: Check) -> None:
        """Record the owner of the version that it names, atomically with a check of the current state.

        From then on, `write` rejects a batch as soon as another claim has replaced this one.
        """

    @abc.abstractmethod
    def owners(self) -> tuple[Owner, ...]:
        """The owners of all versions."""

    @abc.abstractmethod
    def drop(self) -> None:
        """Delete the table with all of its versions and metadata, if it exists."""

    def require_owner(self, claimed: Owner | None, recorded: Iterable[Owner]) -> None:
        """Raise if a claim was made, and is not the recorded one."""
        if claimed is None or claimed.run in [one.run for one in recorded]:
            return
        now = next((one for one in recorded if (one.pipeline, one.query) == (claimed.pipeline, claimed.query)), None)
        whom = f"a run in {now.home} on {now.host}" if now else "nothing"
        raise StoreRefused(
            f"the table that {claimed.query} writes is now owned by {whom}, so this run writes no more",
            "Run a pipeline once: stop this run, or the other one.",
        )

    @abc.abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def with_ttl(definition: Definition, table: str, ttl_ms: int | None) -> Definition:
    """The definition for an opened store, whose ttl holds where the layout has none."""
    layout = definition.layout
    if layout.table != table:
        raise StoreRefused(f"the store was opened for table {table}, not for {layout.table}")
    return Definition.of(
        definition.schema, Layout(table, layout.key, layout.version, layout.ttl_ms or ttl_ms, layout.window_end)
    )


def not_prepared(table: str, version: int | None = None) -> StoreRefused:
    """The error for a table, or a version of it, that does not exist."""
    which = f"table {table}" if version is None else f"table {table}, version {version},"
    return StoreRefused(f"{which} is not in the store", "Prepare it first: it was never there, or has been dropped.")


def is_shown(definition: Definition) -> StoreRefused:
    """The error for dropping the version that readers see."""
    return StoreRefused(
        f"{definition} is the one that readers see", "Switch to another version before you drop this one."
    )


def window_end(definition: Definition) -> str:
    """The column that separates batch layer and speed layer."""
    if definition.layout.window_end is None:
        raise StoreRefused(
            f"{definition} has no windows, so nothing says which rows a batch layer would replace",
            "Name the column that holds the end of the window, or switch to a version without `until`.",
        )
    return definition.layout.window_end


def check_unseen(batch: Batch, definition: Definition, live: Version | None) -> None:
    """Reject rows of a batch layer that readers would see before the switch, among old ones."""
    end = window_end(definition)
    if live is None or live.version != definition.layout.version or live.until is None or not batch.upserts.num_rows:
        return
    earliest = compute.min(batch.upserts.column(end)).as_py()
    if earliest <= live.until:
        raise StoreRefused(
            f"{definition}: a window that ends at {earliest} would be seen at once, among those not yet recomputed: "
            f"the batch layer is shown up to {live.until}",
            "Recompute into a new version, then switch to it.",
        )


def milliseconds(moment: datetime) -> int:
    """A time in milliseconds since 1970."""
    return (moment - _EPOCH) // MILLISECOND


def microseconds(moment: datetime) -> int:
    """A time in microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(count_us: int) -> datetime:
    """The time that many microseconds after the start of 1970."""
    return _EPOCH + count_us * _MICROSECOND
