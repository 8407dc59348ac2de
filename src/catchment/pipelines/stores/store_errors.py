"""Errors of real-time stores: whether a retry may cure them, and what to do next."""

from __future__ import annotations

from catchment.client.errors import ClientError
from catchment.pipelines.errors import Refusal


class StoreError(ClientError):
    """Any error of a store. The current batch is in it completely or not at all."""


class StoreAway(StoreError):
    """The store is away, busy or full. A retry may succeed, and is safe: a batch counts once."""


class StoreRefused(StoreError, Refusal):
    """A request that the store rejects, however often it is retried."""


class StoreDenied(StoreRefused):
    """The store rejects the connection: the user, password or database in its address is wrong."""
