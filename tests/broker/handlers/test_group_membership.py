"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup over the wire, at every version."""

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.types import GroupId
from tests.broker.handlers.group_requests import (
    become_member,
    describe,
    find_coordinator,
    heartbeat,
    join,
    join_request,
    leave,
    sync,
)
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as connected:
        find_coordinator(connected)
        yield connected


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_at_every_version(wire: Wire, version: int) -> None:
    joined = become_member(wire, version=version)
    assert (joined.generation_id, joined.protocol_name, joined.leader) == (1, "range", joined.member_id)
    assert [member.metadata for member in joined.members] == [b"subscription"]


@pytest.mark.parametrize("version", range(4, 10))
def test_a_new_member_is_given_an_id_first(wire: Wire, version: int) -> None:
    refused = join(wire, version=version)
    assert refused.error_code is ErrorCode.member_id_required
    assert refused.member_id.startswith("test-")


@pytest.mark.parametrize("version", range(6))
def test_a_member_gets_its_share_at_every_version(wire: Wire, version: int) -> None:
    answer = sync(wire, become_member(wire), version=version)
    assert (answer.error_code, answer.assignment) == (ErrorCode.none, b"share")


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_is_answered_at_every_version(wire: Wire, version: int) -> None:
    joined = become_member(wire)
    sync(wire, joined)
    assert heartbeat(wire, joined, version=version) is ErrorCode.none
    assert heartbeat(wire, joined, generation=7, version=version) is ErrorCode.illegal_generation


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves_at_every_version(wire: Wire, version: int) -> None:
    joined = become_member(wire)
    answer = leave(wire, joined.member_id, version=version)
    assert answer.error_code is ErrorCode.none
    assert describe(wire).group_state == "Empty"
    again = leave(wire, joined.member_id, version=version)
    assert ErrorCode.unknown_member_id in (again.error_code, *(member.error_code for member in again.members))


def test_a_second_member_makes_the_first_join_again(broker: Broker, wire: Wire) -> None:
    first = become_member(wire)
    sync(wire, first)
    with Wire(broker) as other:
        refused = join(other)
        assert heartbeat(wire, first) is ErrorCode.none
        other.send(join_request(refused.member_id), 9)
        while heartbeat(wire, first) is not ErrorCode.rebalance_in_progress:
            pass
        again = join(wire, first.member_id)
        second = other.receive()
        assert (again.generation_id, len(again.members)) == (2, 2)
        assert (second.error_code, second.leader, second.members) == (ErrorCode.none, first.member_id, ())
        sync(wire, again)
        assert sync(other, second).assignment == b"share"


def test_before_any_group_was_looked_for_there_is_no_coordinator(broker: Broker) -> None:
    with Wire(broker) as fresh:
        assert join(fresh).error_code is ErrorCode.not_coordinator


def test_a_static_member_comes_back_without_a_rebalance_also_after_a_restart(broker: Broker, wire: Wire) -> None:
    first = become_member(wire, instance_id="one")
    sync(wire, first)
    broker.restart()
    with Wire(broker) as again:
        find_coordinator(again)
        second = become_member(again, instance_id="one")
        assert (second.generation_id, second.skip_assignment) == (1, True)
        assert sync(again, second).assignment == b"share"


def test_a_group_without_a_name_is_rejected(wire: Wire) -> None:
    assert join(wire, group="").error_code is ErrorCode.invalid_group_id


@pytest.mark.parametrize(("kind", "name"), [(None, None), ("consumer", None), (None, "range")])
def test_from_version_5_on_a_sync_names_the_protocol(wire: Wire, kind: str | None, name: str | None) -> None:
    joined = become_member(wire)
    request = SyncGroupRequest(
        group_id=GroupId("g"),
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type=kind,
        protocol_name=name,
        assignments=(),
    )
    assert wire.ask(request, 5).error_code is ErrorCode.inconsistent_group_protocol
    assert wire.ask(request, 4).error_code is ErrorCode.none
