"""The filter of DescribeClientQuotas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.quotas.alterations import CLIENT_ID, IP, USER, named_parts
from catchment.cluster.metadata import QuotaEntity
from catchment.protocol.errors import ApiError

_TYPES: Final = frozenset({USER, CLIENT_ID, IP})


class Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2
    """Any name, or the default."""


class Component(NamedTuple):
    kind: str
    match: Match
    name: str | None = None


def parse_components(components: Iterable[tuple[str, int, str | None]]) -> list[Component]:
    parsed: dict[str, Component] = {}
    for kind, number, name in components:
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in parsed:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _TYPES:
            raise ApiError(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
        try:
            match = Match(number)
        except ValueError:
            raise _invalid(f"Unknown match type {number}") from None
        if (match is Match.EXACT) != (name is not None):
            raise _invalid(f"A match of type {match.name} {'needs' if match is Match.EXACT else 'takes no'} name.")
        parsed[kind] = Component(kind, match, name)
    if IP in parsed and len(parsed) > 1:
        raise _invalid("Invalid filter: IP cannot be combined with user or client id.")
    return list(parsed.values())


def matches(entity: QuotaEntity, components: Sequence[Component], *, strict: bool) -> bool:
    """Whether the entity matches every component; with `strict`, it must have no other part."""
    parts = dict(named_parts(entity))
    if strict and len(parts) != len(components):
        return False
    return all(
        component.kind in parts and (component.match is Match.ANY or parts[component.kind] == component.name)
        for component in components
    )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, message)
