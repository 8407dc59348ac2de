"""Validation of ConsumerGroupHeartbeat, and its responses."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.groups.consumer.consumer_shards import ConsumerClient, ConsumerShard, settle

from catchment.coordination.groups.consumer.commands import DEFAULT_LIMITS, GroupTiming

JOIN: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topics": ("t",), "owned": {}}


@pytest.mark.parametrize(
    ("member_id", "epoch", "options", "message"),
    [
        ("", 0, JOIN, "member needs an id"),
        ("", 3, {"makes_own_id": False}, "member needs an id"),
        ("a", 0, {**JOIN, "group_id": ""}, "group needs an id"),
        ("a", 0, {**JOIN, "group_id": " "}, "group needs an id"),
        ("a", 0, {**JOIN, "instance_id": ""}, "instance id"),
        ("a", 0, {**JOIN, "rack_id": ""}, "rack"),
        ("a", 0, {**JOIN, "rebalance_timeout_ms": -1}, "time-out"),
        ("a", 0, {**JOIN, "owned": None}, "owns no partition"),
        ("a", 0, {**JOIN, "topics": None}, "subscribe"),
        ("a", -2, {}, "static member"),
        ("a", -3, {}, "epoch -3 is invalid"),
        ("m" * 32_001, 0, JOIN, "32000 bytes"),
    ],
)
def test_invalid_requests_are_rejected(member_id: str, epoch: int, options: dict[str, Any], message: str) -> None:
    shard = ConsumerShard(t=1)
    answer = shard.beat(member_id, epoch, **options)
    assert answer.error is ErrorCode.invalid_request
    assert message in (answer.message or "")
    assert shard.log == []


def test_a_member_that_rejoins_must_own_nothing() -> None:
    shard = ConsumerShard(t=1)
    owned = {shard.image.topics["t"].id: frozenset((0,))}
    assert shard.join_consumer("a", "t", owned=owned).error is ErrorCode.invalid_request


def test_only_known_assignors_are_used() -> None:
    shard = ConsumerShard(t=1)
    answer = shard.join_consumer("a", "t", assignor="mine")
    assert answer.error is ErrorCode.unsupported_assignor
    assert "uniform, range" in (answer.message or "")


def test_the_assignor_that_most_members_prefer_is_used() -> None:
    shard = ConsumerShard(t=3, u=3)
    clients = [ConsumerClient(shard, name, "t", "u", assignor="range") for name in "ab"]
    settle(*clients, ConsumerClient(shard, "c", "t", "u"))
    assert all(client.reads["t"] == client.reads["u"] != [] for client in clients)
    assert shard.shard.consumer.describe("g").assignor == "range"


def test_unknown_members_and_groups_are_rejected() -> None:
    shard = ConsumerShard(t=1)
    assert shard.beat("a", 1).error is ErrorCode.group_id_not_found
    assert shard.beat("a", -1).error is ErrorCode.group_id_not_found
    shard.join_consumer("a", "t")
    assert shard.beat("b", 1).error is ErrorCode.unknown_member_id
    assert shard.beat("b", -1).error is ErrorCode.unknown_member_id


def test_a_wrong_epoch_is_fenced() -> None:
    shard = ConsumerShard(t=1)
    shard.join_consumer("a", "t")
    assert shard.beat("a", 2).error is ErrorCode.fenced_member_epoch
    shard.set_topic("t", 2)
    assert shard.beat("a", 1, owned={}).epoch == 2
    shard.set_topic("t", 3)
    assert shard.beat("a", 2, owned={}).epoch == 3
    assert shard.beat("a", 1, owned={}).error is ErrorCode.fenced_member_epoch


def test_a_member_that_missed_the_last_response_may_send_the_previous_epoch() -> None:
    shard = ConsumerShard(t=1)
    topic_id = shard.image.topics["t"].id
    shard.join_consumer("a", "t")
    shard.set_topic("t", 2)
    shard.beat("a", 1, owned={topic_id: frozenset((0,))})
    again = shard.beat("a", 1, rebalance_timeout_ms=1, topics=("t",), owned={topic_id: frozenset((0,))})
    assert (again.error, again.epoch) == (ErrorCode.none, 2)
    assert again.assignment == {topic_id: frozenset((0, 1))}
    foreign = shard.beat("a", 1, owned={topic_id: frozenset((0, 5))})
    assert foreign.error is ErrorCode.fenced_member_epoch
    silent = shard.beat("a", 1)
    assert silent.error is ErrorCode.fenced_member_epoch


def test_a_member_may_join_again_with_its_own_id() -> None:
    shard = ConsumerShard(t=2)
    shard.join_consumer("a", "t")
    again = shard.join_consumer("a", "t")
    assert (again.error, again.epoch) == (ErrorCode.none, 1)
    assert shard.names(again.assignment or {}) == {"t": [0, 1]}


def test_a_group_has_a_maximum_size() -> None:
    shard = ConsumerShard(DEFAULT_LIMITS._replace(max_size=1), t=1)
    shard.join_consumer("a", "t")
    assert shard.join_consumer("b", "t").error is ErrorCode.group_max_size_reached
    assert shard.join_consumer("a", "t").error is ErrorCode.none


def test_a_group_may_have_its_own_timeouts() -> None:
    timings = {"g": GroupTiming(session_timeout_ms=7, heartbeat_interval_ms=3)}
    shard = ConsumerShard(DEFAULT_LIMITS._replace(timing_of=lambda group: timings.get(group, GroupTiming())), t=1)
    assert shard.join_consumer("a", "t").heartbeat_interval_ms == 3
    assert shard.join_consumer("a", "t", group_id="other").heartbeat_interval_ms == 5_000
    shard.advance(7)
    assert shard.group().is_empty
    assert not shard.group("other").is_empty


def test_a_response_waits_until_its_records_are_committed() -> None:
    shard = ConsumerShard(t=1)
    shard.holds_commits = True
    answers = shard.beat_later("a", 0, **JOIN)
    assert answers == []
    shard.commit_all()
    assert [answer.error for answer in answers] == [ErrorCode.none]


def test_a_failed_write_is_answered_with_its_error() -> None:
    shard = ConsumerShard(t=1)
    shard.holds_commits = True
    answers = shard.beat_later("a", 0, **JOIN)
    shard.fail_all(ErrorCode.coordinator_not_available)
    assert [answer.error for answer in answers] == [ErrorCode.coordinator_not_available]


def test_members_survive_a_failover() -> None:
    shard = ConsumerShard(t=2)
    first, second = ConsumerClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    settle(first, second)
    before = (first.reads, second.reads)
    shard.crash()
    assert (first.beat(), second.beat()) == (ErrorCode.none, ErrorCode.none)
    assert (first.reads, second.reads) == before
    shard.advance(45_000)
    assert shard.group().is_empty, "the sessions started again, and expired"


def test_the_rebalance_timeout_starts_again_after_a_failover() -> None:
    shard = ConsumerShard(t=2)
    first, second = ConsumerClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    first.beat()
    second.beat()
    first.beat()
    shard.crash()
    for _ in range(2):
        shard.advance(29_999)
        shard.beat("a", first.epoch)
        second.beat()
    assert list(shard.group().members) == ["a", "b"]
    shard.advance(2)
    assert list(shard.group().members) == ["b"]
