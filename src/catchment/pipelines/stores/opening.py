"""From the address of a store to the store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from catchment.pipelines.stores.errors import StoreRefused
from catchment.pipelines.stores.layout import check_table_name
from catchment.pipelines.stores.sqlite_store import SqliteStore
from catchment.pipelines.stores.store import Clock, RealTimeStore

_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = ("postgresql://", "postgres://")
_REDIS: Final = ("redis://", "rediss://", "unix://")


def _now() -> datetime:
    return datetime.now(UTC)


def open_store(url: str, table: str, ttl_ms: int | None = None, *, clock: Clock = _now) -> RealTimeStore:
    """A table of the store at an address. Nothing is connected before it is used."""
    check_table_name(table)
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE):
        return SqliteStore(Path(url.removeprefix(_SQLITE)), table, ttl_ms, clock)
    if url.startswith(_POSTGRESQL):
        return _open_postgresql(url, table, ttl_ms, clock)
    if url.startswith(_REDIS):
        return _open_redis(url, table, ttl_ms, clock)
    # What follows the kind may be a password.
    raise StoreRefused(
        f"no store is known by an address that starts with {url.partition(':')[0]!r}",
        "Write sqlite:///file.db (sqlite:////folder/file.db from the root), postgresql://user@host/database or redis://host.",
    )


def _open_postgresql(url: str, table: str, ttl_ms: int | None, clock: Clock) -> RealTimeStore:
    try:
        from catchment.pipelines.stores.postgresql_store import PostgresqlStore
    except ImportError as error:
        raise _missing("PostgreSQL", "psycopg[binary]") from error
    return PostgresqlStore(url, table, ttl_ms, clock)


def _open_redis(url: str, table: str, ttl_ms: int | None, clock: Clock) -> RealTimeStore:
    try:
        from catchment.pipelines.stores.redis_store import RedisStore
    except ImportError as error:
        raise _missing("Redis", "redis") from error
    return RedisStore(url, table, ttl_ms, clock)


def _missing(kind: str, library: str) -> StoreRefused:
    return StoreRefused(f"a store in {kind} needs a library that is not installed", f"pip install '{library}'")
