"""The metadata tables of a database store, and the views that readers use.

`catchment_views` holds a row for each view: the version that it shows, and up to when from the batch layer. Each part of a view
looks at that row, so one update of it switches all later readers at once.
`catchment_tables` holds the definition of each version, and whether a view has ever shown it; `catchment_batches` the newest batch
of each query; `catchment_owners` the queries that may write to each version.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from catchment.pipelines.ownership.owner import Asking, Found, Owner
from catchment.pipelines.stores.definition import WRITTEN, Definition, Version, Written, shown_columns
from catchment.pipelines.stores.sql.session import Session, listed, quoted
from catchment.pipelines.stores.text_values import moment_from, moment_text

CATALOG: Final = ("catchment_views", "catchment_tables", "catchment_batches", "catchment_owners")


def speed_table(table: str, version: int) -> str:
    """Where the batches of a stream go."""
    return f"{table}__speed_{version}"


def batch_table(table: str, version: int) -> str:
    """Where a recomputation goes."""
    return f"{table}__batch_{version}"


def layer_tables(definition: Definition) -> list[str]:
    """The tables of a version: the layers are separated by the end of a window, so only windows have a batch layer."""
    layout = definition.layout
    speed = speed_table(layout.table, layout.version)
    return [speed, batch_table(layout.table, layout.version)] if layout.window_end else [speed]


def create_catalog(session: Session) -> None:
    """Create the metadata tables that are missing."""
    moment = session.moment_type
    session.execute(
        f"CREATE TABLE IF NOT EXISTS catchment_views (view TEXT PRIMARY KEY, version INTEGER NOT NULL, until {moment})"
    )
    session.execute(
        "CREATE TABLE IF NOT EXISTS catchment_tables (view TEXT NOT NULL, version INTEGER NOT NULL, "
        f"definition TEXT NOT NULL, until {moment}, shown INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (view, version))"
    )
    session.execute(
        "CREATE TABLE IF NOT EXISTS catchment_batches "
        "(view TEXT NOT NULL, query TEXT NOT NULL, batch_id BIGINT NOT NULL, PRIMARY KEY (view, query))"
    )


def create_owners(session: Session) -> None:
    """Create the table of owners, which stores of earlier releases do not have."""
    session.execute(
        "CREATE TABLE IF NOT EXISTS catchment_owners (view TEXT NOT NULL, version INTEGER NOT NULL, "
        "pipeline TEXT NOT NULL, query TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (view, version, pipeline, query))"
    )


def owners(session: Session, table: str, version: int) -> tuple[Owner, ...]:
    """The queries that own a version."""
    if not session.has_relation("catchment_owners"):
        return ()
    rows = session.execute("SELECT owner FROM catchment_owners WHERE view = ? AND version = ?", table, version)
    return tuple(Owner.model_validate_json(text) for (text,) in rows)


def held_owners(session: Session, table: str, version: int) -> tuple[Owner, ...]:
    """The owners of a version, locked until the end of the transaction; waits for a batch or claim that is under way."""
    if not session.has_relation("catchment_owners"):
        return ()
    rows = session.execute(
        "UPDATE catchment_owners SET owner = owner WHERE view = ? AND version = ? RETURNING owner", table, version
    )
    return tuple(Owner.model_validate_json(text) for (text,) in rows)


def all_owners(session: Session, table: str) -> tuple[Owner, ...]:
    """The queries that own any version."""
    if not session.has_relation("catchment_owners"):
        return ()
    rows = session.execute("SELECT owner FROM catchment_owners WHERE view = ?", table)
    return tuple(Owner.model_validate_json(text) for (text,) in rows)


def save_owner(session: Session, table: str, owner: Owner) -> None:
    """Record an owner of the version that it names."""
    session.execute(
        "INSERT INTO catchment_owners (view, version, pipeline, query, owner) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (view, version, pipeline, query) DO UPDATE SET owner = excluded.owner",
        table,
        owner.version,
        owner.pipeline,
        owner.query,
        owner.model_dump_json(),
    )


def found(session: Session, table: str, version: int, asking: Asking) -> Found:
    """The recorded owners of a version, and whether it has rows of others."""
    definition = definitions(session, table).get(version)
    recorded = owners(session, table, version)
    if definition is None:
        return Found(recorded)
    writers = {query for (query,) in session.execute("SELECT query FROM catchment_batches WHERE view = ?", table)}
    has_rows = any(session.execute(f"SELECT 1 FROM {quoted(one)} LIMIT 1") for one in layer_tables(definition))
    last = last_batch(session, table, asking.query_id) if asking.query_id else None
    return Found(recorded, last, bool(has_rows and writers - asking.home_ids), not has_rows)


def definitions(session: Session, table: str) -> dict[int, Definition]:
    """The versions of a table, oldest first."""
    if not session.has_relation("catchment_tables"):
        return {}
    rows = session.execute("SELECT version, definition FROM catchment_tables WHERE view = ? ORDER BY version", table)
    return {version: Definition.from_text(text, table, version) for version, text in rows}


def save_definition(session: Session, definition: Definition) -> None:
    """Save the definition of a version."""
    session.execute(
        "INSERT INTO catchment_tables (view, version, definition) VALUES (?, ?, ?) "
        "ON CONFLICT (view, version) DO UPDATE SET definition = excluded.definition",
        definition.layout.table,
        definition.layout.version,
        definition.to_text(),
    )


def create_tables(session: Session, definition: Definition) -> None:
    """Create the layers of a new version."""
    layout = definition.layout
    columns = [f"{quoted(field.name)} {session.type_of(field.type)}" for field in definition.schema]
    columns.append(f"{quoted(WRITTEN)} BIGINT NOT NULL")
    if layout.key:
        columns.append(f"PRIMARY KEY ({listed(layout.key)})")
    age = layout.window_end or (WRITTEN if layout.ttl_ms else None)
    for name in layer_tables(definition):
        session.execute(f"CREATE TABLE {quoted(name)} ({', '.join(columns)})")
        if age:
            session.execute(f"CREATE INDEX {quoted(f'{name}_age')} ON {quoted(name)} ({quoted(age)})")


def add_columns(session: Session, old: Definition, new: Definition) -> None:
    """Add to the layers of a version the columns that are new."""
    for field in list(new.schema)[len(old.schema) :]:
        for name in layer_tables(old):
            session.execute(f"ALTER TABLE {quoted(name)} ADD COLUMN {quoted(field.name)} {session.type_of(field.type)}")


def define_view(session: Session, table: str, versions: Mapping[int, Definition]) -> None:
    """Define the view so that it shows the version that its row names."""
    columns = shown_columns(versions.values())
    parts = []
    for version, definition in versions.items():
        own = definition.schema.names
        values = ", ".join(
            quoted(field.name)
            if field.name in own
            else f"CAST(NULL AS {session.type_of(field.type)}) AS {quoted(field.name)}"
            for field in columns
        )
        # The name of a table needs no quotes within a literal: it has been checked.
        shown = f"(SELECT %s FROM catchment_views WHERE view = '{table}')"
        is_live = f"{shown % 'version'} = {version}"
        speed = f"SELECT {values} FROM {quoted(speed_table(table, version))} WHERE {is_live}"
        if definition.layout.window_end:
            end, until = quoted(definition.layout.window_end), shown % "until"
            speed += f" AND {end} > COALESCE({until}, {session.earliest})"
            batch = quoted(batch_table(table, version))
            parts.append(f"SELECT {values} FROM {batch} WHERE {is_live} AND {end} <= {until}")
        parts.append(speed)
    session.replace_view(table, " UNION ALL ".join(parts))


def live_version(session: Session, table: str) -> Version | None:
    """The version that the view shows."""
    for version, until in session.execute("SELECT version, until FROM catchment_views WHERE view = ?", table):
        return Version(version, moment_from(until), is_live=True, was_shown=True)
    return None


def all_versions(session: Session, table: str) -> list[Version]:
    """Each version, with the moment up to which its batch layer was shown when it was last shown."""
    live = live_version(session, table)
    rows = session.execute("SELECT version, until, shown FROM catchment_tables WHERE view = ? ORDER BY version", table)
    return [
        live
        if live and live.version == version
        else Version(version, moment_from(until), is_live=False, was_shown=bool(shown))
        for version, until, shown in rows
    ]


def show(session: Session, table: str, version: int, until: datetime | None) -> None:
    """Have the view show a version from the end of this transaction on."""
    text = moment_text(until) if until else None
    # First the row that readers look at: another transaction that shows a version waits for the end of this one.
    session.execute(
        "INSERT INTO catchment_views (view, version, until) VALUES (?, ?, ?) "
        "ON CONFLICT (view) DO UPDATE SET version = excluded.version, until = excluded.until",
        table,
        version,
        text,
    )
    session.execute(
        "UPDATE catchment_tables SET until = ?, shown = 1 WHERE view = ? AND version = ?", text, table, version
    )


def is_new(session: Session, table: str, version: int) -> bool:
    """Whether the view never showed a version, and shows no later one; locked until the end of the transaction."""
    session.execute("UPDATE catchment_views SET version = version WHERE view = ?", table)
    return not any(
        one.was_shown if one.version == version else one.is_live and one.version > version
        for one in all_versions(session, table)
    )


def claim_batch(session: Session, table: str, query: str, batch_id: int) -> bool:
    """Record a batch as written by this transaction; False if the query has already written it. Others wait for the end of this one."""
    return bool(
        session.execute(
            "INSERT INTO catchment_batches (view, query, batch_id) VALUES (?, ?, ?) ON CONFLICT (view, query) DO UPDATE "
            "SET batch_id = excluded.batch_id WHERE catchment_batches.batch_id < excluded.batch_id RETURNING batch_id",
            table,
            query,
            batch_id,
        )
    )


def last_batch(session: Session, table: str, query: str) -> int | None:
    """The newest batch of a query."""
    if not session.has_relation("catchment_batches"):
        return None
    rows = session.execute("SELECT batch_id FROM catchment_batches WHERE view = ? AND query = ?", table, query)
    return int(rows[0][0]) if rows else None


def is_further(session: Session, table: str, known: Written) -> bool:
    """Whether a query has written a later batch than the known one. Its next batch waits for the end of this transaction."""
    rows = session.execute(
        "UPDATE catchment_batches SET batch_id = batch_id WHERE view = ? AND query = ? RETURNING batch_id",
        table,
        known.query,
    )
    return bool(rows) and int(rows[0][0]) > known.batch_id
