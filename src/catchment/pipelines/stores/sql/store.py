"""The code that all SQL stores share: one transaction for each call, and a view over layers and versions."""

from __future__ import annotations

import abc
import threading
from contextlib import AbstractContextManager
from datetime import datetime

import pyarrow

from catchment.pipelines.ownership.owner import Asking, Found, Owner
from catchment.pipelines.stores.definition import WRITTEN, Definition, Layout, Version, Written, shown_columns
from catchment.pipelines.stores.rows import Batch
from catchment.pipelines.stores.sql import catalog
from catchment.pipelines.stores.sql.session import Session, quoted
from catchment.pipelines.stores.store import (
    MILLISECOND,
    Check,
    Clock,
    RealTimeStore,
    check_unseen,
    is_shown,
    milliseconds,
    not_prepared,
    window_end,
    with_ttl,
)
from catchment.pipelines.stores.store_errors import StoreRefused
from catchment.pipelines.stores.text_values import moment_text


class SqlStore(RealTimeStore):
    """A table of a database. What differs between databases is behind `Session`."""

    def __init__(self, table: str, ttl_ms: int | None, clock: Clock) -> None:
        self._table = table
        self._ttl_ms = ttl_ms
        self._clock = clock
        self._lock = threading.RLock()
        self._owner: Owner | None = None

    @abc.abstractmethod
    def _transaction(self, *, to_write: bool = True) -> AbstractContextManager[Session]:
        """A transaction that is committed at the end of the block, or rolled back."""

    def prepare(self, schema: pyarrow.Schema, layout: Layout) -> None:
        """As the contract says. Where nothing has changed, nothing is locked for readers."""
        wanted = with_ttl(Definition.of(schema, layout), self._table, self._ttl_ms)
        with self._lock, self._transaction(to_write=False) as session:
            old = catalog.definitions(session, self._table).get(layout.version)
            if old and old.after(wanted) == old:
                return
        with self._lock, self._transaction() as session:
            session.lock_definitions(self._table)
            catalog.create_catalog(session)
            versions = catalog.definitions(session, self._table)
            if not versions and session.has_relation(self._table):
                raise StoreRefused(
                    f"there is a table or view {self._table} already, which is none of this store's",
                    "Give the table another name, or remove what is there.",
                )
            self._define(session, versions, wanted)
            if catalog.live_version(session, self._table) is None:
                catalog.show(session, self._table, layout.version, None)

    def _define(self, session: Session, versions: dict[int, Definition], wanted: Definition) -> None:
        version = wanted.layout.version
        old = versions.get(version)
        new = old.after(wanted) if old else wanted
        versions = dict(sorted({**versions, version: new}.items()))
        shown_columns(versions.values())
        if old is None:
            catalog.create_tables(session, new)
        else:
            catalog.add_columns(session, old, new)
        catalog.save_definition(session, new)
        catalog.define_view(session, self._table, versions)

    def write(self, rows: pyarrow.Table, query: str, batch_id: int, version: int) -> bool:
        """As the contract says; the batch's number is recorded first, so that a repeated batch costs little."""
        with self._lock, self._transaction() as session:
            definition = self._definition(session, version)
            if self._owner is not None:
                self.require_owner(self._owner, catalog.held_owners(session, self._table, version))
            if not catalog.claim_batch(session, self._table, query, batch_id):
                return False
            self._put(session, catalog.speed_table(self._table, version), Batch.of(rows, definition), definition)
            return True

    def last_batch(self, query: str) -> int | None:
        """As the contract says."""
        with self._lock, self._transaction(to_write=False) as session:
            return catalog.last_batch(session, self._table, query)

    def read(self) -> pyarrow.Table:
        """As the contract says; the columns are those of all versions."""
        with self._lock, self._transaction(to_write=False) as session:
            versions = catalog.definitions(session, self._table)
            if not versions:
                raise not_prepared(self._table)
            return session.fetch(self._table, shown_columns(versions.values()))

    def expire(self, now: datetime) -> int:
        """As the contract says, in every version and layer."""
        count = 0
        with self._lock, self._transaction() as session:
            for definition in catalog.definitions(session, self._table).values():
                layout = definition.layout
                if layout.ttl_ms is None:
                    continue
                oldest = now - layout.ttl_ms * MILLISECOND
                limit = f"'{moment_text(oldest)}'" if layout.window_end else str(milliseconds(oldest))
                for name in catalog.layer_tables(definition):
                    age = quoted(layout.window_end or WRITTEN)
                    count += session.change(f"DELETE FROM {quoted(name)} WHERE {age} <= {limit}")
        return count

    def write_batch_layer(self, rows: pyarrow.Table, version: int) -> None:
        """As the contract says. With a key, the same rows again change nothing."""
        with self._lock, self._transaction() as session:
            definition = self._definition(session, version)
            batch = Batch.of(rows, definition)
            check_unseen(batch, definition, catalog.live_version(session, self._table))
            self._put(session, catalog.batch_table(self._table, version), batch, definition)

    def clear_batch_layer(self, version: int) -> None:
        """As the contract says."""
        with self._lock, self._transaction() as session:
            definition = self._definition(session, version)
            end = quoted(window_end(definition))
            live = catalog.live_version(session, self._table)
            seen = live.until if live and live.version == version else None
            kept = f" WHERE {end} > '{moment_text(seen)}'" if seen else ""
            session.change(f"DELETE FROM {quoted(catalog.batch_table(self._table, version))}{kept}")

    def switch(self, version: int, until: datetime | None, *, unless_after: Written | None = None) -> bool:
        """As the contract says: one row changes."""
        with self._lock, self._transaction() as session:
            definition = self._definition(session, version)
            if until is not None:
                window_end(definition)
            if unless_after is not None and catalog.is_further(session, self._table, unless_after):
                return False
            catalog.show(session, self._table, version, until)
            return True

    def show_new(self, version: int) -> bool:
        """As the contract says."""
        with self._lock, self._transaction() as session:
            self._definition(session, version)
            if not catalog.is_new(session, self._table, version):
                return False
            catalog.show(session, self._table, version, None)
            return True

    def definition(self, version: int) -> Definition:
        """As the contract says."""
        with self._lock, self._transaction(to_write=False) as session:
            return self._definition(session, version)

    def versions(self) -> list[Version]:
        """As the contract says."""
        with self._lock, self._transaction(to_write=False) as session:
            known = catalog.definitions(session, self._table)
            return catalog.all_versions(session, self._table) if known else []

    def drop_version(self, version: int) -> None:
        """As the contract says. The view releases the tables first, in the order in which readers lock them."""
        with self._lock, self._transaction() as session:
            session.lock_definitions(self._table)
            versions = catalog.definitions(session, self._table)
            definition = self._definition(session, version)
            live = catalog.live_version(session, self._table)
            if live and live.version == version:
                raise is_shown(definition)
            del versions[version]
            catalog.define_view(session, self._table, versions)
            for name in catalog.layer_tables(definition):
                session.execute(f"DROP TABLE {quoted(name)}")
            session.execute("DELETE FROM catchment_tables WHERE view = ? AND version = ?", self._table, version)

    def found(self, version: int, asking: Asking) -> Found:
        """As the contract says."""
        with self._lock, self._transaction(to_write=False) as session:
            return catalog.found(session, self._table, version, asking)

    def claim(self, owner: Owner, asking: Asking, check: Check) -> None:
        """As the contract says. Claims of a database follow one another."""
        with self._lock, self._transaction() as session:
            # Only definitions are locked, not the view that readers use.
            session.lock_definitions("catchment_owners")
            catalog.create_owners(session)
            catalog.held_owners(session, self._table, owner.version)
            check(catalog.found(session, self._table, owner.version, asking))
            catalog.save_owner(session, self._table, owner)
        self._owner = owner

    def owners(self) -> tuple[Owner, ...]:
        """As the contract says."""
        with self._lock, self._transaction(to_write=False) as session:
            return catalog.all_owners(session, self._table)

    def drop(self) -> None:
        """As the contract says, in one transaction."""
        with self._lock, self._transaction() as session:
            session.lock_definitions(self._table)
            versions = catalog.definitions(session, self._table)
            if versions:
                session.execute(f"DROP VIEW IF EXISTS {quoted(self._table)}")
            for definition in versions.values():
                for name in catalog.layer_tables(definition):
                    session.execute(f"DROP TABLE IF EXISTS {quoted(name)}")
            for name in catalog.CATALOG:
                if session.has_relation(name):
                    session.execute(f"DELETE FROM {name} WHERE view = ?", self._table)

    def _definition(self, session: Session, version: int) -> Definition:
        definition = catalog.definitions(session, self._table).get(version)
        if definition is None:
            raise not_prepared(self._table, version)
        return definition

    def _put(self, session: Session, name: str, batch: Batch, definition: Definition) -> None:
        if batch.deleted_keys.num_rows:
            session.delete(name, batch.deleted_keys)
        if batch.upserts.num_rows:
            written = pyarrow.repeat(milliseconds(self._clock()), batch.upserts.num_rows)
            session.upsert(name, batch.upserts.append_column(WRITTEN, written), definition.layout.key)
