"""Subscriptions by regular expression."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from tests.coordination.groups.consumer.consumer_shards import ConsumerClient, ConsumerShard, settle


def test_a_member_reads_all_topics_that_its_expression_matches_as_a_whole() -> None:
    shard = ConsumerShard(ab=1, abc=1, xab=1)
    client = ConsumerClient(shard, "a", regex="ab.*")
    client.beat()
    assert client.reads == {"ab": [0], "abc": [0]}


def test_new_matching_topics_are_added_and_deleted_ones_removed() -> None:
    shard = ConsumerShard(ab=1)
    client = ConsumerClient(shard, "a", regex="ab.*")
    client.beat()
    shard.set_topic("abc", 1)
    client.beat()
    assert client.reads == {"ab": [0], "abc": [0]}
    shard.delete_topic("ab")
    settle(client, rounds=2)
    assert client.reads == {"abc": [0]}


def test_an_expression_adds_to_the_names() -> None:
    shard = ConsumerShard(ab=1, x=1)
    answer = shard.join_consumer("a", "x", regex="ab")
    assert shard.names(answer.assignment or {}) == {"ab": [0], "x": [0]}


def test_an_invalid_expression_is_rejected() -> None:
    shard = ConsumerShard(t=1)
    answer = shard.join_consumer("a", regex="a(")
    assert answer.error is ErrorCode.invalid_regular_expression
    assert answer.message == "'a(' is not a valid regular expression: missing ): a("
    assert shard.log == []


def test_an_expression_is_deleted_with_the_last_member_that_uses_it() -> None:
    shard = ConsumerShard(ab=2)
    first, second = ConsumerClient(shard, "a", regex="ab"), ConsumerClient(shard, "b", regex="ab")
    settle(first, second)
    first.leave()
    assert list(shard.group().regexes) == ["ab"]
    shard.beat("b", second.epoch, regex="")
    assert (shard.group().regexes, shard.group().topics) == ({}, frozenset())


def test_an_expression_is_replayed_as_it_was_resolved() -> None:
    shard = ConsumerShard(ab=1)
    client = ConsumerClient(shard, "a", regex="ab.*")
    client.beat()
    shard.crash()
    assert shard.group().topics == {"ab"}
    client.beat()
    assert client.epoch == 1
