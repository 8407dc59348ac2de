"""The share-group APIs answer as Apache Kafka does: the same requests to both, one after another."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta
from tests.broker.handlers.group_requests import commit
from tests.broker.handlers.wire import Wire
from tests.compat.clients.client import TIMEOUT_S
from tests.compat.java_tool import require_java

from catchment.bench.peers.kafka import KafkaServer
from catchment.testing.embedded import Broker

_NOT_YET = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
_TIMEOUT = i32Timedelta.parse(timedelta(seconds=10))


def settled(ask: Callable[[], Any]) -> Any:
    """The first answer that does not ask to come again."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while (answer := ask()).error_code in _NOT_YET:
        assert time.monotonic() < deadline_s
    return answer


class Asked:
    """What a server was asked and what it answered, so far as two servers can be compared by it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.answers: list[tuple[object, ...]] = []

    def beat(self, member_id: str, epoch: int, *topics: str, group: str = "g", rack_id: str | None = None) -> int:
        request = ShareGroupHeartbeatRequest(
            group_id=GroupId(group),
            member_id=member_id,
            member_epoch=i32(epoch),
            rack_id=rack_id,
            subscribed_topic_names=tuple(map(TopicName, topics)) or None,
        )
        answer = settled(lambda: self._wire.ask(request, 1))
        self.answers.append(("heartbeat", member_id, epoch, topics, group, answer.error_code, answer.member_id))
        return int(answer.member_epoch)

    def describe(self, *groups: str) -> None:
        request = ShareGroupDescribeRequest(group_ids=tuple(map(GroupId, groups)), include_authorized_operations=False)
        for group in sorted(self._wire.ask(request, 1).groups, key=lambda group: str(group.group_id)):
            state = (group.group_state, group.assignor_name, len(group.members))
            self.answers.append(("describe", group.group_id, group.error_code, group.error_message, state))

    def consumer_beat(self, group: str) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GroupId(group),
            member_id="consumer",
            member_epoch=i32(0),
            rebalance_timeout=_TIMEOUT,
            subscribed_topic_names=(TopicName("t"),),
            topic_partitions=(),
        )
        self.answers.append(("consumer heartbeat", settled(lambda: self._wire.ask(request, 1)).error_code))

    def classic(self, group: str) -> None:
        join = JoinGroupRequest(
            group_id=GroupId(group),
            session_timeout=_TIMEOUT,
            rebalance_timeout=_TIMEOUT,
            member_id="",
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\0\0\0\0"),),
        )
        self.answers.append(("join", settled(lambda: self._wire.ask(join, 9)).error_code))
        for version in (5, 6):
            request = DescribeGroupsRequest(groups=(GroupId(group),), include_authorized_operations=False)
            described = self._wire.ask(request, version).groups[0]
            self.answers.append(("describe classic", version, described.error_code, described.group_state))

    def commit(self, group: str) -> None:
        self.answers.append(("commit", commit(self._wire, 1, topic="t", group=group)))

    def list(self) -> None:
        groups = self._wire.ask(ListGroupsRequest(states_filter=(), types_filter=()), 5).groups
        found = sorted((one.group_id, one.protocol_type, one.group_state, one.group_type) for one in groups)
        self.answers.append(("list", found))

    def describe_offsets(self, group: str, topic: str, *numbers: int) -> None:
        for version in (0, 1):
            topics = (
                DescribeShareGroupOffsetsRequestTopic(topic_name=TopicName(topic), partitions=tuple(map(i32, numbers))),
            )
            groups = (DescribeShareGroupOffsetsRequestGroup(group_id=GroupId(group), topics=topics),)
            (described,) = self._wire.ask(DescribeShareGroupOffsetsRequest(groups=groups), version).groups
            ((partitions, is_unknown),) = [(one.partitions, one.topic_id is None) for one in described.topics]
            self.answers.append(("offsets", group, described.error_code, is_unknown, partitions))

    def delete(self, *groups: str) -> None:
        request = DeleteGroupsRequest(groups_names=tuple(map(GroupId, groups)))
        results = {result.group_id: result.error_code for result in self._wire.ask(request, 2).results}
        self.answers.append(("delete", results))


def answers_of(server: Broker | KafkaServer) -> list[tuple[object, ...]]:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(TIMEOUT_S)
    with Wire(server) as wire:
        find = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=("g",))
        settled(lambda: wire.ask(find, 6).coordinators[0])
        asked = Asked(wire)
        ask_all(asked)
    return asked.answers


def ask_all(asked: Asked) -> None:
    asked.beat("a", 1)
    asked.beat("a", -1)
    asked.beat("", 0, "t")
    asked.beat("a", 0)
    asked.beat("a", -2, "t")
    asked.beat("a", 0, "t", rack_id="")
    asked.beat("a", 0, "t", group="")
    epoch = asked.beat("a", 0, "t")
    asked.beat("b", 3)
    asked.beat("b", -1)
    asked.beat("a", epoch + 100)
    asked.describe("g", "missing", "")
    asked.list()
    asked.describe_offsets("missing", "t", 0, 1)
    asked.describe_offsets("missing", "nowhere", 0)
    asked.describe_offsets("g", "nowhere", 0)
    asked.classic("g")
    asked.commit("g")
    asked.consumer_beat("g")
    asked.consumer_beat("consumers")
    asked.beat("a", 0, "t", group="consumers")
    asked.describe("consumers")
    asked.delete("g", "missing")
    asked.beat("a", -1)
    asked.list()
    asked.delete("g")
    asked.describe("g")


def test_responses_are_those_of_kafka() -> None:
    require_java()
    with Broker() as broker:
        ours = answers_of(broker)
    with KafkaServer({}) as kafka:
        theirs = answers_of(kafka)
    assert ours == theirs
