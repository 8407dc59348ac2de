"""The contract of every real-time store.

A store takes the rows of a batch and the batch's number in one transaction, so that a batch that is repeated after a crash
changes nothing. Readers see a table through a view with two layers: windows that end at or before a moment T come from the
batch layer, later ones from the speed layer, both of the same version. T and the version are changed together, so whoever reads
while that happens sees either the old state or the new one.
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
"""Looks at what is found, and raises if it may not be claimed."""


class RealTimeStore(abc.ABC):
    """One table of a store. Methods raise `StoreAway` where a repetition may help, and `StoreRefused` where it cannot.

    It may be used from any thread, by one at a time: others wait.
    """

    @abc.abstractmethod
    def prepare(self, schema: pyarrow.Schema, layout: Layout) -> None:
        """Make what a version of the table needs; of one that is there, only a nullable column may be added."""

    @abc.abstractmethod
    def write(self, rows: pyarrow.Table, query: str, batch_id: int, version: int) -> bool:
        """Put a batch into the speed layer, once: False, and nothing happens, where the query got as far before.

        With a key, a row replaces the one that has its key, and the last of a batch wins; where a column `__deleted` is true,
        the row goes. Without a key, rows are added. `query` is a name that belongs to one checkpoint for ever.
        """

    def unstorable(self, rows: pyarrow.Table, definition: Definition) -> pyarrow.ChunkedArray:
        """Of each row, why this table can never take it, for people to read; null of a row that it can.

        A row is judged by what is in it alone, so that a batch that is repeated is judged alike. `write` refuses a batch that has
        such a row. A table need not be prepared for this.
        """
        return judged(rows, lambda others: self.reasons_against(others, definition))

    def reasons_against(self, rows: pyarrow.Table, definition: Definition) -> pyarrow.ChunkedArray:
        """The same of rows whose text is UTF-8."""
        return reasons_against(rows, definition)

    @abc.abstractmethod
    def last_batch(self, query: str) -> int | None:
        """The newest batch that this query has put into the table."""

    @abc.abstractmethod
    def read(self) -> pyarrow.Table:
        """What a reader sees now, as of one moment."""

    @abc.abstractmethod
    def expire(self, now: datetime) -> int:
        """Delete what is older than the ttl, by the end of its window or else by when it was written; how many rows."""

    @abc.abstractmethod
    def write_batch_layer(self, rows: pyarrow.Table, version: int) -> None:
        """Put recomputed rows into the batch layer of a version, where no reader sees them before `switch`."""

    @abc.abstractmethod
    def clear_batch_layer(self, version: int) -> None:
        """Forget what an unfinished recomputation has left: all of the batch layer that no reader sees."""

    @abc.abstractmethod
    def switch(self, version: int, until: datetime | None, *, unless_after: Written | None = None) -> bool:
        """Show a version: windows up to `until` from its batch layer, later ones from its speed layer, in one moment.

        False, and nothing happens, where a query has come further than `unless_after` says: what it has added would be missing.
        """

    @abc.abstractmethod
    def show_new(self, version: int) -> bool:
        """Show a version from its speed layer alone, for the first time.

        False, and nothing happens, where it was shown before, though somebody may have gone back from it, or where a later
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
        """Who owns a version of the table, and what it holds of whom. Nothing is created."""

    @abc.abstractmethod
    def claim(self, owner: Owner, asking: Asking, check: Check) -> None:
        """Record the owner of the version that it names, in one step with a check of what is there.

        From then on, `write` refuses a batch as soon as another claim has taken the place of this one.
        """

    @abc.abstractmethod
    def owners(self) -> tuple[Owner, ...]:
        """The owners of all versions."""

    @abc.abstractmethod
    def drop(self) -> None:
        """Delete the table with all of its versions, and what is recorded of it; nothing happens where it is not there."""

    def require_owner(self, claimed: Owner | None, recorded: Iterable[Owner]) -> None:
        """Raise where a claim was made, and is not the one that is recorded."""
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
        """Let go of the connection."""

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
    """A table, or a version of it, is not there."""
    which = f"table {table}" if version is None else f"table {table}, version {version},"
    return StoreRefused(f"{which} is not in the store", "Prepare it first: it was never there, or has been dropped.")


def is_shown(definition: Definition) -> StoreRefused:
    """Readers see the version that somebody wants to drop."""
    return StoreRefused(
        f"{definition} is the one that readers see", "Switch to another version before you drop this one."
    )


def window_end(definition: Definition) -> str:
    """The column that tells batch layer from speed layer."""
    if definition.layout.window_end is None:
        raise StoreRefused(
            f"{definition} has no windows, so nothing says which rows a batch layer would replace",
            "Name the column that holds the end of the window, or switch to a version without `until`.",
        )
    return definition.layout.window_end


def check_unseen(batch: Batch, definition: Definition, live: Version | None) -> None:
    """Refuse rows of a batch layer that readers would see before the switch, among old ones."""
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
    """Milliseconds of a moment since 1970."""
    return (moment - _EPOCH) // MILLISECOND


def microseconds(moment: datetime) -> int:
    """Microseconds of a moment since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(count_us: int) -> datetime:
    """The moment so many microseconds after the start of 1970."""
    return _EPOCH + count_us * _MICROSECOND
