"""Real-time stores: a table of the newest results, in SQLite, PostgreSQL or Redis, with each batch in it once."""

from catchment.pipelines.stores.definition import Layout
from catchment.pipelines.stores.store import RealTimeStore
from catchment.pipelines.stores.store_errors import StoreAway, StoreDenied, StoreError, StoreRefused
from catchment.pipelines.stores.store_opening import open_store

__all__ = ["Layout", "RealTimeStore", "StoreAway", "StoreDenied", "StoreError", "StoreRefused", "open_store"]
