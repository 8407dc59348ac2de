"""The same consumer-group requests to Apache Kafka and to Catchment: the same responses, one by one.

Among them are requests that well-behaved clients do not send. The assignors choose which member gets which partition, so
assignments are compared by their number of partitions. A new group starts with epoch 2 in Kafka, where 1 is the epoch of a member
that waits for its first assignment, and with 1 in Catchment: epochs are compared relative to the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta
from tests.broker.handlers.group_requests import commit, describe, fetch_group, listing
from tests.broker.handlers.wire import Wire
from tests.compat.java_tool import require_java
from tests.waiting import wait_until

from catchment.bench.peers.kafka import KafkaServer
from catchment.testing.embedded import Broker

_TIMEOUT_S = 150.0
_MINUTE = i32Timedelta.parse(timedelta(minutes=1))
_PARTITIONS = {"t": 2, "u": 1}
# Kafka then computes assignments in the step that needs them, as Catchment does, and not a moment later.
_AT_ONCE = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}


class Transcript:
    """Sends requests, and records the responses."""

    def __init__(self, wire: Wire, bootstrap_servers: str) -> None:
        self.wire = wire
        self.transcript: list[tuple[str, object]] = []
        self.first_epoch = 0
        """Of the group that there is."""
        self.owned: dict[str, tuple[TopicPartitions, ...]] = {}
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        made = self.admin.create_topics([NewTopic(name, count, 1) for name, count in _PARTITIONS.items()])
        for future in made.values():
            future.result(_TIMEOUT_S)
        self._await_coordinator()

    def _await_coordinator(self) -> None:
        """Kafka creates the offsets topic on the first request for a coordinator, and responds before it exists."""
        request = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=("g",))
        wait_until(lambda: self.wire.ask(request, 6).coordinators[0].error_code is ErrorCode.none, timeout_s=_TIMEOUT_S)
        wait_until(lambda: fetch_group(self.wire, "g").error_code is ErrorCode.none, timeout_s=_TIMEOUT_S)

    def note(self, question: str, answer: object) -> None:
        self.transcript.append((question, answer))

    def beat(
        self, question: str, member: str, epoch: int, *, group: str = "g", version: int = 1, **options: Any
    ) -> int:
        """Send a heartbeat; the epoch in the response."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=GroupId(group),
            member_id=member,
            member_epoch=i32(epoch),
            **{"topic_partitions": None, **options},
        )
        answer = self.wire.ask(request, version)
        assigned = None
        if answer.assignment is not None:
            assigned = sum(len(one.partitions) for one in answer.assignment.topic_partitions)
            self.owned[member] = tuple(
                TopicPartitions(topic_id=one.topic_id, partitions=one.partitions)
                for one in answer.assignment.topic_partitions
            )
        self.first_epoch = self.first_epoch or max(answer.member_epoch, 0)
        self.note(question, (answer.error_code, answer.member_id, self._since(answer.member_epoch), assigned))
        member_epoch: int = answer.member_epoch
        return member_epoch

    def join(self, question: str, member: str, *topics: str, **options: Any) -> int:
        names = {} if "subscribed_topic_regex" in options else {"subscribed_topic_names": tuple(map(TopicName, topics))}
        full = {"rebalance_timeout": _MINUTE, "topic_partitions": (), **names, **options}
        return self.beat(question, member, 0, **full)

    def acknowledge(self, question: str, member: str, epoch: int, **options: Any) -> int:
        """A heartbeat with the last assignment as the owned partitions."""
        return self.beat(question, member, epoch, topic_partitions=self.owned[member], **options)

    def _since(self, epoch: int) -> int:
        return epoch - self.first_epoch + 1 if epoch > 0 else epoch

    def until_new_epoch(self, member: str, epoch: int) -> int:
        """Send heartbeats until the coordinator has noticed a change of the topics; how many it takes is not compared."""
        noted = len(self.transcript)
        deadline_s = time.monotonic() + _TIMEOUT_S
        while (newer := self.acknowledge("new partitions", member, epoch)) == epoch:
            assert time.monotonic() < deadline_s
        del self.transcript[noted:-1]
        return newer

    def describe(self, question: str, group: str = "g") -> None:
        request = ConsumerGroupDescribeRequest(group_ids=(GroupId(group),), include_authorized_operations=False)
        (answer,) = self.wire.ask(request, 1).groups
        members = sorted(
            (
                one.member_id,
                one.instance_id,
                self._since(one.member_epoch),
                one.subscribed_topic_names,
                one.subscribed_topic_regex,
                one.member_type,
            )
            for one in answer.members
        )
        epochs = (self._since(answer.group_epoch), self._since(answer.assignment_epoch))
        error = (answer.error_code, answer.error_message)
        self.note(question, (*error, answer.group_state, *epochs, answer.assignor_name, members))

    def delete(self, question: str, group: str = "g") -> None:
        (result,) = self.wire.ask(DeleteGroupsRequest(groups_names=(GroupId(group),)), 2).results
        self.note(question, result.error_code)
        if result.error_code is ErrorCode.none:
            self.first_epoch = 0

    def commit(self, question: str, member: str, epoch: int, version: int = 9, **options: Any) -> None:
        joined = SimpleNamespace(generation_id=i32(epoch), member_id=member)
        self.note(question, commit(self.wire, 5, topic="t", joined=joined, version=version, **options))


def _nonsense(talk: Transcript) -> None:
    talk.beat("heartbeat without a group", "a", 1)
    talk.beat("leave without a group", "a", -1)
    talk.describe("no group")
    talk.delete("no group")
    talk.join("no member", "", "t")
    talk.join("no instance", "a", "t", instance_id="")
    talk.join("no rack", "a", "t", rack_id="")
    talk.beat("no time", "a", 0, topic_partitions=(), subscribed_topic_names=())
    talk.beat("no partitions", "a", 0, rebalance_timeout=_MINUTE, subscribed_topic_names=())
    talk.beat("no subscription", "a", 0, rebalance_timeout=_MINUTE, topic_partitions=())
    talk.beat("static without instance", "a", -2)
    talk.beat("no such epoch", "a", -3)
    talk.join("no such assignor", "a", "t", server_assignor="best")
    talk.join("no expression", "a", subscribed_topic_regex="(")
    talk.describe("still no group")


def _life(talk: Transcript) -> None:
    epoch = talk.join("join", "a", "t", "u")
    talk.beat("quiet", "a", epoch)
    talk.describe("alone")
    talk.beat("unknown member", "b", 1)
    talk.beat("too new", "a", epoch + 1)
    talk.beat("quiet still", "a", epoch)
    talk.join("second", "b", "t", "u")
    talk.describe("two")
    talk.beat("revoke", "a", epoch)
    talk.describe("revoking")
    talk.beat("says nothing", "a", epoch)
    epoch = talk.acknowledge("revoked", "a", epoch)
    talk.describe("revoked")
    talk.acknowledge("receive", "b", epoch)
    talk.describe("stable")
    talk.beat("the epoch before, saying nothing", "a", epoch - 1)
    talk.acknowledge("the epoch before", "a", epoch - 1)
    talk.join("again with the same id", "a", "t", "u")
    talk.delete("not empty")
    talk.beat("goodbye", "b", -1)
    talk.describe("one left")
    talk.beat("goodbye again", "b", -1)
    talk.acknowledge("take over", "a", epoch)
    talk.beat("last goodbye", "a", -1)
    talk.describe("empty")
    talk.delete("empty")
    talk.describe("gone")


def _subscriptions(talk: Transcript) -> None:
    talk.join("a topic that exists", "a", "u")
    epoch = talk.join("a topic that does not", "b", "x")
    talk.describe("nothing for b")
    talk.acknowledge("another name", "b", epoch, subscribed_topic_names=(TopicName("t"),))
    talk.describe("both have one")
    talk.beat("goodbye b", "b", -1)
    talk.beat("goodbye a", "a", -1)
    talk.delete("done")


def _offsets(talk: Transcript) -> None:
    talk.commit("no group", "a", 1)
    talk.commit("no group, long ago", "a", 1, version=8)
    epoch = talk.join("join", "a", "t")
    talk.commit("commit", "a", epoch)
    talk.commit("commit too new", "a", epoch + 1)
    talk.commit("commit as an old client", "a", epoch, version=8)
    talk.commit("commit as another member", "b", epoch)
    talk.commit("commit without a member", "", -1)
    talk.admin.create_partitions([NewPartitions("t", 3)])["t"].result(_TIMEOUT_S)
    newer = talk.until_new_epoch("a", epoch)
    talk.commit("commit what it had", "a", epoch, partition=0)
    talk.commit("commit what is new with the old epoch", "a", epoch, partition=2)
    talk.commit("commit what is new", "a", newer, partition=2)
    talk.beat("goodbye", "a", -1)
    talk.commit("commit for the empty group", "", -1)
    talk.delete("done")


def _statics(talk: Transcript) -> None:
    epoch = talk.join("join", "a", "u", instance_id="i")
    talk.join("in use", "b", "u", instance_id="i")
    talk.beat("leave for a moment", "a", -2, instance_id="i")
    talk.describe("away")
    talk.beat("a ghost", "a", epoch, instance_id="i")
    talk.join("come back", "b", "u", instance_id="i")
    talk.describe("back")
    talk.beat("the former self", "a", epoch, instance_id="i")
    talk.beat("the former self says goodbye", "a", -1, instance_id="i")
    talk.beat("unknown instance", "b", epoch, instance_id="j")
    talk.beat("goodbye", "b", -1, instance_id="i")
    talk.delete("done")


def _other_kinds(talk: Transcript) -> None:
    commit(talk.wire, 5, topic="t", group="c")
    talk.describe("a group that is no consumer group", "c")
    talk.join("join", "a", "u")
    described = describe(talk.wire, "g")
    talk.note("described as classic", (described.error_code, described.group_state))
    listed = {(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in listing(talk.wire).groups}
    talk.note("listed", sorted(one for one in listed if one[0] in ("g", "c")))
    talk.beat("goodbye", "a", -1)
    talk.delete("done")


SCENES: list[Callable[[Transcript], None]] = [_nonsense, _life, _subscriptions, _offsets, _statics, _other_kinds]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Transcript]:
    require_java()
    with KafkaServer(_AT_ONCE) as server, Wire(server) as wire:
        yield Transcript(wire, server.bootstrap_servers)


@pytest.fixture
def ours() -> Iterator[Transcript]:
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
    with Broker(settings=settings) as broker, Wire(broker) as wire:
        yield Transcript(wire, broker.bootstrap_servers)


def test_the_same_requests_get_the_same_responses(kafka: Transcript, ours: Transcript) -> None:
    for scene in SCENES:
        scene(kafka)
        scene(ours)
    assert len(ours.transcript) > 70
    assert ours.transcript == kafka.transcript
