"""FindCoordinator over the wire, while there is none to find."""

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
from kio.static.primitive import i8
from tests.broker.handlers.wire import Wire


def find(wire: Wire, *keys: str, key_type: int = 0, version: int = 6) -> FindCoordinatorResponse:
    response = wire.ask(FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=keys), version)
    assert isinstance(response, FindCoordinatorResponse)
    return response


@pytest.mark.parametrize("version", range(7))
def test_a_key_is_answered_at_every_version(wire: Wire, version: int) -> None:
    (coordinator,) = find(wire, "group", version=version).coordinators
    assert coordinator.error_code is ErrorCode.coordinator_not_available
    assert coordinator.node_id == -1


def test_each_of_many_keys_gets_its_own_answer(wire: Wire) -> None:
    response = find(wire, "a", "b", key_type=1)
    assert [coordinator.key for coordinator in response.coordinators] == ["a", "b"]
    assert "transactions" in (response.coordinators[0].error_message or "")


def test_an_unknown_type_of_key_is_refused(wire: Wire) -> None:
    assert find(wire, "a", key_type=9).coordinators[0].error_code is ErrorCode.invalid_request
