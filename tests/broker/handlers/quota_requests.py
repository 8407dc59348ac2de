"""Requests about client quotas as the tests of their handlers send them."""

from typing import Any

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.alter_client_quotas.v1.response import EntryData as AlteredEntry
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64, i8
from tests.broker.handlers.wire import Wire

Entity = dict[str, str | None]


def entry(entity: Entity, quotas: dict[str, float | None]) -> EntryData:
    """None in place of a value removes the quota."""
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        ops=tuple(OpData(key=key, value=f64(float(value or 0)), remove=value is None) for key, value in quotas.items()),
    )


def alter(wire: Wire, *entries: EntryData, version: int = 1, validate_only: bool = False) -> tuple[AlteredEntry, ...]:
    answer: Any = wire.ask(AlterClientQuotasRequest(entries=entries, validate_only=validate_only), version)
    altered: tuple[AlteredEntry, ...] = answer.entries
    return altered


def set_quotas(wire: Wire, entity: Entity, **quotas: float | None) -> None:
    (altered,) = alter(wire, entry(entity, quotas))
    assert altered.error_code is ErrorCode.none, altered.error_message


def describe(
    wire: Wire, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> list[tuple[Entity, dict[str, float]]]:
    answer = ask_describe(wire, *components, strict=strict, version=version)
    assert answer.error_code is ErrorCode.none, answer.error_message
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: float(value.value) for value in each.values},
        )
        for each in answer.entries
    ]


def ask_describe(wire: Wire, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    parts = tuple(ComponentData(entity_type=kind, match_type=i8(match), match=name) for kind, match, name in components)
    return wire.ask(DescribeClientQuotasRequest(components=parts, strict=strict), version)
