"""Requests to the group coordinator as the tests of its handlers send them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_commit.v10.request import OffsetCommitRequest, OffsetCommitRequestPartition
from kio.schema.offset_fetch.v10.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64
from tests.broker.handlers.log_requests import topic_id
from tests.broker.handlers.wire import Wire

from catchment.protocol.adapters.offset_commit import OffsetCommitRequestTopic
from catchment.protocol.adapters.offset_fetch import OffsetFetchRequestTopics

FIRST_WITH_IDS = 10
COMMIT_VERSION = 8
FETCH_VERSION = 8


def find_coordinator(wire: Wire, group: str = "g") -> None:
    """Wait until the group's coordinator has loaded its log."""
    found = wire.ask(FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(group,)), 6)
    assert found.coordinators[0].error_code is ErrorCode.none
    while fetch_group(wire, group).error_code is ErrorCode.coordinator_load_in_progress:
        pass


def join_request(member_id: str = "", *, group: str = "g", instance_id: str | None = None) -> JoinGroupRequest:
    timeout = i32Timedelta.parse(timedelta(seconds=10))
    return JoinGroupRequest(
        group_id=GroupId(group),
        session_timeout=timeout,
        rebalance_timeout=timeout,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"subscription"),),
    )


def join(wire: Wire, member_id: str = "", *, group: str = "g", instance_id: str | None = None, version: int = 9) -> Any:
    return wire.ask(join_request(member_id, group=group, instance_id=instance_id), version)


def become_member(wire: Wire, *, group: str = "g", version: int = 9, instance_id: str | None = None) -> Any:
    """Join as a new member does at this version, with the second join where it is asked for."""
    joined = join(wire, group=group, version=version, instance_id=instance_id)
    if joined.error_code is ErrorCode.member_id_required:
        joined = join(wire, joined.member_id, group=group, version=version)
    assert joined.error_code is ErrorCode.none
    return joined


def sync(wire: Wire, joined: Any, *, group: str = "g", version: int = 5) -> Any:
    assignments = [
        SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"share") for member in joined.members
    ]
    return wire.ask(
        SyncGroupRequest(
            group_id=GroupId(group),
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer" if version >= 5 else None,
            protocol_name="range" if version >= 5 else None,
            assignments=tuple(assignments),
        ),
        version,
    )


def heartbeat(wire: Wire, joined: Any, *, generation: int | None = None, version: int = 4) -> ErrorCode:
    answer = wire.ask(
        HeartbeatRequest(
            group_id=GroupId("g"),
            generation_id=joined.generation_id if generation is None else i32(generation),
            member_id=joined.member_id,
        ),
        version,
    )
    code: ErrorCode = answer.error_code
    return code


def leave(wire: Wire, *member_ids: str, version: int = 5) -> Any:
    members = tuple(MemberIdentity(member_id=member_id) for member_id in member_ids)
    return wire.ask(LeaveGroupRequest(group_id=GroupId("g"), members=members), version)


def commit(
    wire: Wire,
    offset: int,
    *,
    topic: str = "a",
    partition: int = 0,
    group: str = "g",
    joined: Any = None,
    metadata: str | None = "note",
    leader_epoch: int = -1,
    version: int = COMMIT_VERSION,
) -> ErrorCode:
    """Commit one offset; its outcome."""
    asked = OffsetCommitRequestPartition(
        partition_index=i32(partition),
        committed_offset=i64(offset),
        committed_leader_epoch=i32(leader_epoch),
        committed_metadata=metadata,
    )
    is_by_id = version >= FIRST_WITH_IDS
    request = OffsetCommitRequest(
        group_id=GroupId(group),
        generation_id_or_member_epoch=i32(-1) if joined is None else joined.generation_id,
        member_id="" if joined is None else joined.member_id,
        topics=(
            OffsetCommitRequestTopic(
                topic_id=topic_id(wire, topic) if is_by_id else None,
                name=None if is_by_id else TopicName(topic),
                partitions=(asked,),
            ),
        ),
    )
    ((answer,),) = [one.partitions for one in wire.ask(request, version).topics]
    code: ErrorCode = answer.error_code
    return code


def fetch_group(
    wire: Wire, group: str = "g", *topics: str, everything: bool = False, version: int = FETCH_VERSION
) -> Any:
    """The answer for one group: partitions 0 and 1 of the topics, or all that there is."""
    is_by_id = version >= FIRST_WITH_IDS
    asked = tuple(
        OffsetFetchRequestTopics(
            topic_id=topic_id(wire, topic) if is_by_id else None,
            name=None if is_by_id else TopicName(topic),
            partition_indexes=(i32(0), i32(1)),
        )
        for topic in topics
    )
    wanted = OffsetFetchRequestGroup(group_id=GroupId(group), topics=None if everything else asked)
    answer = wire.ask(OffsetFetchRequest(groups=(wanted,)), version)
    return answer.groups[0]


def offsets(wire: Wire, *topics: str, group: str = "g", version: int = FETCH_VERSION) -> list[int]:
    """The committed offsets of partitions 0 and 1 of each topic."""
    answered = fetch_group(wire, group, *topics, version=version)
    assert answered.error_code is ErrorCode.none
    return [partition.committed_offset for topic in answered.topics for partition in topic.partitions]


def describe(wire: Wire, group: str = "g", *, version: int = 6) -> Any:
    (described,) = wire.ask(
        DescribeGroupsRequest(groups=(GroupId(group),), include_authorized_operations=version >= 3), version
    ).groups
    return described


def listing(wire: Wire, *, states: tuple[str, ...] = (), types: tuple[str, ...] = (), version: int = 5) -> Any:
    return wire.ask(ListGroupsRequest(states_filter=states, types_filter=types), version)
