"""The validation and effect of AlterClientQuotas and DescribeClientQuotas."""

import pytest
from kio.schema.errors import ErrorCode

from catchment.broker.quotas.alterations import Operation, altered, check_operations, named_parts, parse_entity
from catchment.broker.quotas.filters import Match, matches, parse_components
from catchment.cluster.metadata import QuotaEntity
from catchment.protocol.errors import ApiError

ANN = QuotaEntity(user="ann")


@pytest.mark.parametrize(
    ("parts", "entity"),
    [
        ([("user", "ann")], ANN),
        ([("client-id", "app"), ("user", None)], QuotaEntity(user="", client_id="app")),
        ([("ip", None)], QuotaEntity(ip="")),
        ([("ip", "2001:DB8:0::1")], QuotaEntity(ip="2001:db8::1")),
    ],
)
def test_an_entity_is_read_from_its_parts(parts: list[tuple[str, str | None]], entity: QuotaEntity) -> None:
    assert parse_entity(parts) == entity
    assert parse_entity(named_parts(entity)) == entity


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "empty client quota entity"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([("user", "")], "Empty user not supported"),
        ([("user", "a"), ("user", "b")], "twice"),
        ([("ip", "1.2.3.4"), ("user", "a")], "an IP cannot be combined"),
        ([("ip", "not-an-address")], "not-an-address is not a valid IP"),
    ],
)
def test_an_entity_that_is_invalid_is_rejected(parts: list[tuple[str, str | None]], message: str) -> None:
    with pytest.raises(ApiError, match=message) as refused:
        parse_entity(parts)
    assert refused.value.code is ErrorCode.invalid_request


def test_quotas_are_set_overwritten_and_removed_and_an_empty_entity_goes() -> None:
    other = QuotaEntity(client_id="app")
    quotas = altered({other: {"consumer_byte_rate": 1.0}}, {ANN: [Operation("producer_byte_rate", 5.0)]})
    quotas = altered(quotas, {ANN: [Operation("producer_byte_rate", 6.0), Operation("request_percentage", 0.5)]})
    assert quotas[ANN] == {"producer_byte_rate": 6.0, "request_percentage": 0.5}
    quotas = altered(quotas, {ANN: [Operation("producer_byte_rate", None), Operation("consumer_byte_rate", None)]})
    assert quotas[ANN] == {"request_percentage": 0.5}
    quotas = altered(quotas, {ANN: [Operation("request_percentage", None)]})
    assert quotas == {other: {"consumer_byte_rate": 1.0}}


@pytest.mark.parametrize(
    ("entity", "operations", "message"),
    [
        (ANN, [Operation("no_such_rate", 1.0)], "Invalid configuration key no_such_rate"),
        (ANN, [Operation("connection_creation_rate", 1.0)], "Invalid configuration key"),
        (QuotaEntity(ip=""), [Operation("producer_byte_rate", 1.0)], "Invalid configuration key"),
        (ANN, [Operation("producer_byte_rate", 0.0)], "must be greater than 0"),
        (ANN, [Operation("request_percentage", float("nan"))], "must be greater than 0"),
        (ANN, [Operation("request_percentage", float("inf"))], "too large"),
        (ANN, [Operation("producer_byte_rate", 1.5)], "cannot be a fractional value"),
        (ANN, [Operation("producer_byte_rate", 1e19)], "too large"),
        (QuotaEntity(ip=""), [Operation("connection_creation_rate", 2.0**31)], "too large"),
        (ANN, [Operation("producer_byte_rate", 1.0)] * 2, "Duplicate quota key"),
    ],
)
def test_a_quota_that_is_invalid_is_rejected(entity: QuotaEntity, operations: list[Operation], message: str) -> None:
    with pytest.raises(ApiError, match=message) as refused:
        check_operations(entity, operations)
    assert refused.value.code is ErrorCode.invalid_request


ENTITIES = [ANN, QuotaEntity(user=""), QuotaEntity("ann", "app"), QuotaEntity(client_id="app"), QuotaEntity(ip="")]


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, ENTITIES),
        ([], True, []),
        ([("user", Match.EXACT, "ann")], False, [ANN, QuotaEntity("ann", "app")]),
        ([("user", Match.EXACT, "ann")], True, [ANN]),
        ([("user", Match.DEFAULT, None)], False, [QuotaEntity(user="")]),
        ([("user", Match.ANY, None)], True, [ANN, QuotaEntity(user="")]),
        ([("user", Match.ANY, None), ("client-id", Match.EXACT, "app")], True, [QuotaEntity("ann", "app")]),
        ([("ip", Match.ANY, None)], False, [QuotaEntity(ip="")]),
    ],
)
def test_a_filter_finds_its_entities(
    components: list[tuple[str, int, str | None]], strict: bool, found: list[QuotaEntity]
) -> None:
    parsed = parse_components(components)
    assert [entity for entity in ENTITIES if matches(entity, parsed, strict=strict)] == found


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", Match.ANY, None)], ErrorCode.invalid_request),
        ([("user", Match.ANY, None)] * 2, ErrorCode.invalid_request),
        ([("group", Match.ANY, None)], ErrorCode.unsupported_version),
        ([("user", 3, None)], ErrorCode.invalid_request),
        ([("user", Match.EXACT, None)], ErrorCode.invalid_request),
        ([("user", Match.DEFAULT, "ann")], ErrorCode.invalid_request),
        ([("ip", Match.ANY, None), ("user", Match.ANY, None)], ErrorCode.invalid_request),
    ],
)
def test_a_filter_that_is_invalid_is_rejected(components: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refused:
        parse_components(components)
    assert refused.value.code is code
