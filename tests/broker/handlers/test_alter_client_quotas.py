"""AlterClientQuotas over the wire: each entity for itself, durable, and nothing changed by a validation."""

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.quota_requests import alter, describe, entry, set_quotas
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_changed_and_removed(wire: Wire, version: int) -> None:
    ann: dict[str, str | None] = {"user": "ann", "client-id": None}
    (first,) = alter(wire, entry(ann, {"producer_byte_rate": 1000, "request_percentage": 12.5}), version=version)
    assert (first.error_code, first.error_message) == (ErrorCode.none, None)
    assert {part.entity_type: part.entity_name for part in first.entity} == ann
    alter(wire, entry(ann, {"producer_byte_rate": 2000, "consumer_byte_rate": None}), version=version)
    assert describe(wire, version=version) == [(ann, {"producer_byte_rate": 2000.0, "request_percentage": 12.5})]
    alter(wire, entry(ann, {"producer_byte_rate": None, "request_percentage": None}), version=version)
    assert describe(wire, version=version) == []


def test_an_entity_that_is_rejected_keeps_no_other_from_its_change(wire: Wire) -> None:
    ann: dict[str, str | None] = {"user": "ann"}
    bob: dict[str, str | None] = {"user": "bob"}
    answers = alter(
        wire,
        entry(bob, {"producer_byte_rate": 5, "no_such_key": 1}),
        entry(ann, {"producer_byte_rate": 7}),
        entry(ann, {"producer_byte_rate": 8}),
    )
    assert [each.error_code for each in answers] == [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]
    assert "no_such_key" in str(answers[0].error_message)
    assert "duplicate" in str(answers[2].error_message)
    assert describe(wire) == [(ann, {"producer_byte_rate": 7.0})]


def test_a_validation_changes_nothing(wire: Wire) -> None:
    good, bad = alter(
        wire,
        entry({"client-id": "app"}, {"consumer_byte_rate": 5}),
        entry({"client-id": "app", "user": "ann"}, {"consumer_byte_rate": -5}),
        validate_only=True,
    )
    assert good.error_code is ErrorCode.none
    assert bad.error_code is ErrorCode.invalid_request
    assert describe(wire) == []


def test_quotas_survive_a_restart_whatever_the_names_are(broker: Broker, wire: Wire) -> None:
    odd: dict[str, str | None] = {"user": "CN=ann/é,O=x&y", "client-id": "a b%2F"}
    set_quotas(wire, odd, producer_byte_rate=5)
    set_quotas(wire, {"ip": None}, connection_creation_rate=500)
    set_quotas(wire, {"user": None}, consumer_byte_rate=6)
    set_quotas(wire, {"user": None}, consumer_byte_rate=None)
    broker.restart()
    with Wire(broker) as again:
        assert describe(again) == [
            ({"ip": None}, {"connection_creation_rate": 500.0}),
            (odd, {"producer_byte_rate": 5.0}),
        ]
        set_quotas(again, odd, producer_byte_rate=None)
        assert describe(again) == [({"ip": None}, {"connection_creation_rate": 500.0})]
