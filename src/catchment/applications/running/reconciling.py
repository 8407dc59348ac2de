"""The comparison at the end: ledger, log and stores, each read back, and what does not add up.

The real-time store is computed again from the cleaned events where the simulation of an application has a function `differences`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from catchment.applications.catalogue import simulation_of
from catchment.applications.running.account import Account
from catchment.applications.running.layout import Layout
from catchment.applications.running.ledger import Ledger
from catchment.client.arrow_api import read_arrow
from catchment.pipelines.stores.store_errors import StoreError
from catchment.pipelines.stores.store_opening import open_store

Rows = list[dict[str, object]]
Check = Callable[[Rows, Rows], list[str]]
"""Takes the cleaned events and the rows of the real-time store; returns the errors in the latter."""


def differences(account: Account, layout: Layout) -> list[str]:
    """Everything that does not add up; nothing if all is well."""
    found = list(account.balance.faults)
    totals = account.totals
    if totals.on_the_way:
        found.append(f"{totals.on_the_way:,} records of {layout.source} were not processed in time")
    if totals.arrived != totals.accounted:
        found.append(f"in {totals.arrived:,} is not the sum of its outcomes, {totals.accounted:,}")
    with Ledger(layout.ledger) as ledger:
        found += account.balance.compare_with_ledger(ledger.resent())
    clean = clean_rows(layout, account.servers)
    if len(clean) != totals.stored + account.foreign_stored:
        found.append(f"{layout.clean} has {len(clean):,} records, and {totals.stored:,} events are stored")
    return found + lake_differences(layout, clean) + store_differences(layout, clean) + command_differences(account)


def compared(layout: Layout) -> list[str]:
    """The names of what is compared."""
    stores = [("real-time store", _store_check(layout)), ("for-ever store", layout.lake)]
    return ["ledger", "log", *(name for name, there in stores if there is not None)]


def clean_rows(layout: Layout, servers: str) -> Rows:
    """The cleaned events, from the log."""
    values = read_arrow(layout.clean, servers, columns=["value"]).column("value").to_pylist()
    return [json.loads(value) for value in values]


def lake_differences(layout: Layout, clean: Rows) -> list[str]:
    """The for-ever store has the events of the log, each once."""
    if layout.lake is None:
        return []
    try:
        stored = Counter(DeltaTable(layout.lake).to_pyarrow_table(columns=["id"]).column("id").to_pylist())
    except TableNotFoundError:
        stored = Counter()
    expected = {str(row["id"]) for row in clean}
    twice = [one for one, count in stored.items() if count > 1]
    missing, extra = expected - stored.keys(), stored.keys() - expected
    found = [f"{layout.lake.name} has event {one} {stored[one]} times" for one in twice[:5]]
    if missing:
        found.append(f"{len(missing):,} events of {layout.clean} are not in the for-ever store, such as {min(missing)}")
    if extra:
        found.append(f"{len(extra):,} events of the for-ever store are not in {layout.clean}, such as {min(extra)}")
    return found


def store_differences(layout: Layout, clean: Rows) -> list[str]:
    """The real-time store has what the application computes from the cleaned events."""
    if layout.store is None or (check := _store_check(layout)) is None:
        return []
    try:
        with open_store(f"sqlite:///{layout.store.file}", layout.store.table) as store:
            return check(clean, store.read().to_pylist())
    except StoreError as error:
        return [str(error)]


def _store_check(layout: Layout) -> Check | None:
    """How the application computes its store again; None where it does not, or has no store."""
    check: Check | None = getattr(simulation_of(layout.name), "differences", None)
    return check if layout.store is not None else None


def command_differences(account: Account) -> list[str]:
    """Each alert was raised once, and acted on once."""
    found = []
    for identity, one in account.commands.items():
        if one.alerts != 1:
            found.append(f"alert {identity} ({one.message}) was raised {one.alerts} times")
        if one.acknowledgements != 1:
            found.append(f"alert {identity} ({one.message}) was acted on {one.acknowledgements} times")
    return found
