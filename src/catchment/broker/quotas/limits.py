"""Which quota applies to a client, and which clients share it.

The most specific entity wins, in Kafka's order. All clients of a user share the user's quota; a default quota is not shared, but
applies to each name separately.
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

_MAX_CACHED: Final = 4096
"""Clients choose their ids, so the number of cached lookups is bounded."""


class Owner(NamedTuple):
    """The clients that share one measurement; None matches any name."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class Limit(NamedTuple):
    owner: Owner
    value: float


class Limits:
    """The quotas of the cluster, indexed for lookup."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._values: dict[str, dict[QuotaEntity, float]] = {}
        for entity, values in quotas.items():
            for key, value in values.items():
                self._values.setdefault(key, {})[entity] = value
        self._found: dict[tuple[str, str, str], Limit | None] = {}

    @property
    def is_empty(self) -> bool:
        return not self._values

    def of_client(self, key: str, user: str, client_id: str) -> Limit | None:
        asked = (key, user, client_id)
        try:
            return self._found[asked]
        except KeyError:
            values = self._values.get(key)
            limit = None if values is None else _first(values, _matching(user, client_id))
        if len(self._found) >= _MAX_CACHED:
            self._found.clear()
        self._found[asked] = limit
        return limit

    def of_address(self, key: str, ip: str) -> Limit | None:
        values = self._values.get(key)
        owner = Owner(ip=ip)
        return None if values is None else _first(values, ((QuotaEntity(ip=name), owner) for name in (ip, DEFAULT)))


def _first(values: Mapping[QuotaEntity, float], candidates: Iterator[tuple[QuotaEntity, Owner]]) -> Limit | None:
    for entity, owner in candidates:
        value = values.get(entity)
        if value is not None:
            return Limit(owner, value)
    return None


def _matching(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, Owner]]:
    """The entities that match a client, the most specific first."""
    for user_name in (user, DEFAULT):
        for client_name in (client_id, DEFAULT):
            yield QuotaEntity(user_name, client_name), Owner(user, client_id)
        yield QuotaEntity(user_name), Owner(user)
    for client_name in (client_id, DEFAULT):
        yield QuotaEntity(client_id=client_name), Owner(client_id=client_id)
