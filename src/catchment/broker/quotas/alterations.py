"""Changes of client quotas, validated as in Kafka."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.quotas.limits import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from catchment.cluster.metadata import ClientQuotas, QuotaEntity
from catchment.protocol.errors import ApiError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

_FIELDS: Final = {USER: "user", CLIENT_ID: "client_id", IP: "ip"}
_LARGEST_INT: Final = (1 << 31) - 1
_LARGEST_LONG: Final = (1 << 63) - 1
_CLIENT_KEYS: Final[dict[str, int | None]] = {
    PRODUCER_BYTE_RATE: _LARGEST_LONG,
    CONSUMER_BYTE_RATE: _LARGEST_LONG,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""The largest value of keys that take whole numbers; None for keys that take any number."""
_ADDRESS_KEYS: Final[dict[str, int | None]] = {CONNECTION_CREATION_RATE: _LARGEST_INT}
_WHOLE_WITHIN: Final = 1e-6


class Operation(NamedTuple):
    key: str
    value: float | None
    """None removes the quota."""


def named_parts(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    """An entity as requests and responses name it: by types, with None for the default."""
    return [(kind, value or None) for kind, field in _FIELDS.items() if (value := getattr(entity, field)) is not None]


def parse_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    named: dict[str, str] = {}
    for kind, name in parts:
        if kind not in _FIELDS:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if _FIELDS[kind] in named:
            raise _invalid(f"Invalid client quota entity: it has {kind} twice")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        named[_FIELDS[kind]] = DEFAULT if name is None else name
    if not named:
        raise _invalid("Invalid empty client quota entity")
    address = named.get("ip")
    if address is not None:
        if len(named) > 1:
            raise _invalid("Invalid quota entity combination: an IP cannot be combined with a user or client id")
        named["ip"] = _normal_address(address)
    return QuotaEntity(**named)


def check_operations(entity: QuotaEntity, operations: Sequence[Operation]) -> None:
    """Raise ApiError unless all operations are valid for the entity."""
    keys = _CLIENT_KEYS if entity.ip is None else _ADDRESS_KEYS
    seen: set[str] = set()
    for key, value in operations:
        if key in seen:
            raise _invalid(f"Duplicate quota key {key}: this entity is not changed")
        seen.add(key)
        if value is not None:
            _check(keys, key, value)


def altered(quotas: ClientQuotas, changes: Mapping[QuotaEntity, Sequence[Operation]]) -> ClientQuotas:
    """The quotas with those of some entities changed; an entity without a quota is dropped."""
    changed = dict(quotas)
    for entity, operations in changes.items():
        values = dict(quotas.get(entity, {}))
        for key, value in operations:
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        if values:
            changed[entity] = values
        else:
            changed.pop(entity, None)
    return changed


def _check(keys: Mapping[str, int | None], key: str, value: float) -> None:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    largest = keys[key]
    if math.isinf(value) or (largest is not None and value > largest):
        raise _invalid(f"Proposed value for {key} is too large")
    if largest is not None and abs(round(value) - value) > _WHOLE_WITHIN:
        raise _invalid(f"{key} cannot be a fractional value.")


def _normal_address(address: str) -> str:
    if address == DEFAULT:
        return DEFAULT
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        raise _invalid(f"{address} is not a valid IP") from None


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, message)
