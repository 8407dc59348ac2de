"""What holds for a table and its view in every store: what must be refused, in the same words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from pyarrow import compute

from catchment.pipelines.stores.definition import Definition
from catchment.pipelines.stores.errors import StoreRefused
from catchment.pipelines.stores.layout import Layout, Version
from catchment.pipelines.stores.rows import Batch

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
