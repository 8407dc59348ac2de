"""Which quota holds for a client, and with whom it shares it.

The most specific entity wins, in Kafka's order. A quota of a user is shared by all its clients; a quota of a default is
not shared, but given to each name that falls under it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from catchment.cluster.metadata import ClientQuotas, QuotaEntity

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

DEFAULT: Final = ""

_MOST_REMEMBERED: Final = 4096
"""Clients choose their ids, so what was looked up is remembered for a number of them only."""


class Owner(NamedTuple):
    """Those who share one measure. A name that is None makes no difference to it."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class Limit(NamedTuple):
    owner: Owner
    bound: float


class Limits:
    """The quotas of the cluster, arranged for looking up."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._bounds: dict[str, dict[QuotaEntity, float]] = {}
        for entity, values in quotas.items():
            for key, value in values.items():
                self._bounds.setdefault(key, {})[entity] = value
        self._found: dict[tuple[str, str, str], Limit | None] = {}

    @property
    def is_empty(self) -> bool:
        return not self._bounds

    def of_client(self, key: str, user: str, client_id: str) -> Limit | None:
        asked = (key, user, client_id)
        try:
            return self._found[asked]
        except KeyError:
            bounds = self._bounds.get(key)
            limit = None if bounds is None else _first(bounds, _matching(user, client_id))
        if len(self._found) >= _MOST_REMEMBERED:
            self._found.clear()
        self._found[asked] = limit
        return limit

    def of_address(self, key: str, ip: str) -> Limit | None:
        bounds = self._bounds.get(key)
        owner = Owner(ip=ip)
        return None if bounds is None else _first(bounds, ((QuotaEntity(ip=name), owner) for name in (ip, DEFAULT)))


def _first(bounds: Mapping[QuotaEntity, float], candidates: Iterator[tuple[QuotaEntity, Owner]]) -> Limit | None:
    for entity, owner in candidates:
        bound = bounds.get(entity)
        if bound is not None:
            return Limit(owner, bound)
    return None


def _matching(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, Owner]]:
    """The entities that a client falls under, the most specific first."""
    for user_name in (user, DEFAULT):
        for client_name in (client_id, DEFAULT):
            yield QuotaEntity(user_name, client_name), Owner(user, client_id)
        yield QuotaEntity(user_name), Owner(user)
    for client_name in (client_id, DEFAULT):
        yield QuotaEntity(client_id=client_name), Owner(client_id=client_id)
