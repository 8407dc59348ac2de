"""DescribeClientQuotas over the wire: filters by name, default and type, strict and not."""

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.quota_requests import ask_describe, describe, set_quotas
from tests.broker.handlers.wire import Wire

EXACT, DEFAULT, ANY = 0, 1, 2


@pytest.fixture
def some(wire: Wire) -> None:
    set_quotas(wire, {"user": "ann"}, producer_byte_rate=1)
    set_quotas(wire, {"user": None}, producer_byte_rate=2)
    set_quotas(wire, {"user": "ann", "client-id": "app"}, producer_byte_rate=3)
    set_quotas(wire, {"client-id": "app"}, producer_byte_rate=4, consumer_byte_rate=40)


@pytest.mark.usefixtures("some")
@pytest.mark.parametrize("version", [0, 1])
def test_without_components_all_quotas_are_described(wire: Wire, version: int) -> None:
    assert len(describe(wire, version=version)) == 4
    assert describe(wire, strict=True, version=version) == []


@pytest.mark.usefixtures("some")
def test_components_choose_by_name_default_and_type(wire: Wire) -> None:
    by_name = describe(wire, ("user", EXACT, "ann"))
    assert [quotas["producer_byte_rate"] for _, quotas in by_name] == [1, 3]
    assert describe(wire, ("user", DEFAULT, None)) == [({"user": None}, {"producer_byte_rate": 2.0})]
    assert describe(wire, ("client-id", ANY, None), strict=True) == [
        ({"client-id": "app"}, {"consumer_byte_rate": 40.0, "producer_byte_rate": 4.0})
    ]


def test_a_filter_that_is_invalid_is_rejected_as_a_whole(wire: Wire) -> None:
    unknown = ask_describe(wire, ("group", ANY, None))
    assert (unknown.error_code, unknown.entries) == (ErrorCode.unsupported_version, None)
    assert "group" in unknown.error_message
    mixed = ask_describe(wire, ("user", ANY, None), ("ip", ANY, None))
    assert mixed.error_code is ErrorCode.invalid_request
