"""Opens a store by its address."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from catchment.pipelines.declaration.addresses import POSTGRESQL, SQLITE, check_store_address
from catchment.pipelines.stores.definition import check_table_name
from catchment.pipelines.stores.sql.sqlite import SqliteStore
from catchment.pipelines.stores.store import Clock, RealTimeStore
from catchment.pipelines.stores.store_errors import StoreRefused


def _now() -> datetime:
    return datetime.now(UTC)


def open_store(url: str, table: str, ttl_ms: int | None = None, *, clock: Clock = _now) -> RealTimeStore:
    """A table of the store at an address. Nothing is connected before it is used."""
    check_table_name(table)
    check_store_address(url)
    if url.startswith(SQLITE):
        return SqliteStore(Path(url.removeprefix(SQLITE)), table, ttl_ms, clock)
    if url.startswith(POSTGRESQL):
        return _open_postgresql(url, table, ttl_ms, clock)
    return _open_redis(url, table, ttl_ms, clock)


def _open_postgresql(url: str, table: str, ttl_ms: int | None, clock: Clock) -> RealTimeStore:
    try:
        from catchment.pipelines.stores.sql.postgresql import PostgresqlStore
    except ImportError as error:
        raise _missing("PostgreSQL", "psycopg[binary]") from error
    return PostgresqlStore(url, table, ttl_ms, clock)


def _open_redis(url: str, table: str, ttl_ms: int | None, clock: Clock) -> RealTimeStore:
    try:
        from catchment.pipelines.stores.redis.store import RedisStore
    except ImportError as error:
        raise _missing("Redis", "redis") from error
    return RedisStore(url, table, ttl_ms, clock)


def _missing(kind: str, library: str) -> StoreRefused:
    return StoreRefused(f"a store in {kind} needs a library that is not installed", f"pip install '{library}'")
