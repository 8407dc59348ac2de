"""What a real-time store says when it cannot do as it was asked: whether waiting may cure it, and what to do next."""

from __future__ import annotations

from catchment.client.errors import ClientError
from catchment.pipelines.errors import Refusal


class StoreError(ClientError):
    """Whatever a store could not do. The batch at hand is either in it as a whole or not at all."""


class StoreAway(StoreError):
    """The store is away, busy or full. The same call again may succeed, and it is safe: a batch counts once."""


class StoreRefused(StoreError, Refusal):
    """What was asked cannot be done as it is, however often it is tried."""


class StoreDenied(StoreRefused):
    """The store does not let us in: its address names a user, a password or a database that is not right."""
