"""Random members of both protocols, topics, time, lost responses, crashes and replays: no partition ever has two readers.

A member reads the partitions of its responses until it has revoked them. While it is a member, no other member may read them.
The coordinator never loses an epoch that it has sent, a replay yields the same groups, and without disturbances the members
converge to an assignment of all partitions.
"""

from __future__ import annotations

import itertools
from collections import Counter
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kio.schema.errors import ErrorCode
from tests.coordination.groups.consumer.classic_clients import ClassicClient
from tests.coordination.groups.consumer.consumer_shards import ConsumerClient, ConsumerShard

from catchment.coordination.groups.classic.group import GroupState
from catchment.coordination.groups.consumer.commands import HeartbeatResponse
from catchment.coordination.groups.consumer.group import ConsumerGroup, ConsumerGroupState

TOPICS = ("t", "u")
SUBSCRIPTIONS = (("t",), ("u",), ("t", "u"))
MOST_CLIENTS = 4

EXPECTED_ERRORS = (
    ErrorCode.none,
    ErrorCode.unknown_member_id,
    ErrorCode.fenced_member_epoch,
    ErrorCode.unreleased_instance_id,
    ErrorCode.group_id_not_found,
)

picks = st.integers(0, MOST_CLIENTS - 1)
LOGGED = (
    "epoch",
    "metadata_hash",
    "assignment_epoch",
    "members",
    "static_ids",
    "targets",
    "currents",
    "owners",
    "regexes",
)


class ConsumerGroupMachine(RuleBasedStateMachine):
    @initialize(is_cooperative=st.booleans(), partitions=st.integers(1, 4))
    def start(self, is_cooperative: bool, partitions: int) -> None:
        self.shard = ConsumerShard(t=partitions, u=2)
        self.is_cooperative = is_cooperative
        self.numbers = itertools.count(1)
        self.consumers: list[ConsumerClient] = []
        self.classics: list[ClassicClient] = []
        self.due: dict[ConsumerClient, list[HeartbeatResponse]] = {}
        """Heartbeats in flight."""

    @property
    def group(self) -> ConsumerGroup | None:
        return self.shard.shard.consumer.groups.by_id.get("g")

    @property
    def has_room(self) -> bool:
        return len(self.consumers) + len(self.classics) < MOST_CLIENTS

    def deliver(self) -> None:
        """Responses are sent when all records that they may depend on are committed."""
        if self.shard.safe_count == len(self.shard.log):
            for client, answers in list(self.due.items()):
                if answers:
                    client.take(answers[0])
                    del self.due[client]

    @precondition(lambda self: self.has_room)
    @rule(topics=st.sampled_from(SUBSCRIPTIONS), is_static=st.booleans(), is_regex=st.booleans())
    def add_consumer(self, topics: tuple[str, ...], is_static: bool, is_regex: bool) -> None:
        name = f"consumer-{next(self.numbers)}"
        options = {"instance_id": f"static-{name}"} if is_static else {}
        if is_regex:
            self.consumers.append(ConsumerClient(self.shard, name, regex="|".join(topics), **options))
        else:
            self.consumers.append(ConsumerClient(self.shard, name, *topics, **options))

    @precondition(lambda self: self.has_room)
    @rule(topics=st.sampled_from(SUBSCRIPTIONS))
    def add_classic(self, topics: tuple[str, ...]) -> None:
        name = f"classic-{next(self.numbers)}"
        self.classics.append(ClassicClient(self.shard, name, *topics, is_cooperative=self.is_cooperative))

    @precondition(lambda self: self.consumers)
    @rule(pick=picks, is_lost=st.booleans())
    def beat(self, pick: int, is_lost: bool) -> None:
        client = self.consumers[pick % len(self.consumers)]
        if client in self.due:
            return
        answers = self.shard.beat_later(client.member_id, client.epoch, **client.request())
        if is_lost:
            client.has_missed_answer = True
        else:
            self.due[client] = answers
        self.deliver()

    @precondition(lambda self: self.classics)
    @rule(pick=picks)
    def step(self, pick: int) -> None:
        self.classics[pick % len(self.classics)].step()
        self.deliver()

    @rule()
    def all_clients_step(self) -> None:
        for pick in range(len(self.consumers)):
            self.beat(pick, is_lost=False)
        for client in self.classics:
            client.step()

    @precondition(lambda self: self.consumers)
    @rule(pick=picks, says_so=st.booleans())
    def end_consumer(self, pick: int, says_so: bool) -> None:
        client = self.consumers.pop(pick % len(self.consumers))
        self.due.pop(client, None)
        if says_so and client.epoch > 0:
            self.shard.beat_later(client.member_id, -1, instance_id=client.options.get("instance_id"))

    @precondition(lambda self: any("instance_id" in one.options for one in self.consumers))
    @rule()
    def restart_static_consumer(self) -> None:
        """A static member stops, and another process replaces it."""
        client = next(one for one in self.consumers if "instance_id" in one.options)
        self.consumers.remove(client)
        self.due.pop(client, None)
        self.shard.beat_later(client.member_id, -2, instance_id=client.options["instance_id"])
        name = f"consumer-{next(self.numbers)}"
        self.consumers.append(ConsumerClient(self.shard, name, *client.topics, **client.options))

    @precondition(lambda self: self.classics)
    @rule(pick=picks, says_so=st.booleans())
    def end_classic(self, pick: int, says_so: bool) -> None:
        client = self.classics.pop(pick % len(self.classics))
        if says_so:
            client.leave()

    @rule(name=st.sampled_from(TOPICS), more=st.integers(1, 2))
    def grow(self, name: str, more: int) -> None:
        topic = self.shard.image.topics.get(name)
        known = 0 if topic is None else len(topic.partitions)
        if known < 6:
            self.shard.set_topic(name, known + more)

    @rule(name=st.sampled_from(TOPICS))
    def delete_topic(self, name: str) -> None:
        if name in self.shard.image.topics:
            self.shard.delete_topic(name)

    @rule(milliseconds=st.sampled_from((1, 3_000, 9_000, 46_000, 61_000)))
    def pass_time(self, milliseconds: int) -> None:
        self.shard.advance(milliseconds)

    @rule()
    def hold_commits(self) -> None:
        self.shard.holds_commits = True

    @rule()
    def let_commits_go(self) -> None:
        self.shard.holds_commits = False
        self.shard.commit_all()
        self.deliver()

    @rule(kept=st.integers(0, 3))
    def crash(self, kept: int) -> None:
        """Lose a part of the uncommitted writes, and all requests in flight."""
        self.shard.crash(self.shard.safe_count + sum(len(write.records) for write in self.shard.pending[:kept]))
        for consumer in self.due:
            consumer.has_missed_answer = True
        self.due.clear()
        for client in self.classics:
            client.lose_answers()

    def readers(self) -> Counter[tuple[UUID, int]]:
        """The number of current members that read each partition."""
        found: Counter[tuple[UUID, int]] = Counter()
        group, classic = self.group, self.shard.shard.state.groups.get("g")
        known = set(group.members if group is not None else classic.members if classic is not None else ())
        for consumer in self.consumers:
            if consumer.member_id in known:
                found.update((topic_id, number) for topic_id, numbers in consumer.owned.items() for number in numbers)
        for client in self.classics:
            if client.member_id in known:
                found.update(client.reads)
        return found

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        if self.shard.safe_count == len(self.shard.log):
            assert all(count == 1 for count in self.readers().values()), self.readers()

    @invariant()
    def no_sent_epoch_is_lost(self) -> None:
        group = self.group
        for client in self.consumers if group is not None else ():
            if group is not None and client.member_id in group.members and client.epoch > 0:
                current = group.current(client.member_id)
                assert client.epoch <= current.epoch <= group.epoch or current.epoch == -2

    @invariant()
    def a_replay_gives_the_same_groups(self) -> None:
        fresh = self.shard.new_shard()
        for key, value in self.shard.log:
            fresh.replay(key, value)
        groups = self.shard.shard.consumer.groups.by_id
        assert list(fresh.consumer.groups.by_id) == list(groups)
        for group_id, group in groups.items():
            replayed = fresh.consumer.groups.by_id[group_id]
            for name in LOGGED:
                assert getattr(replayed, name) == getattr(group, name), name
        assert fresh.state.logged == self.shard.shard.state.logged

    @invariant()
    def groups_are_sound(self) -> None:
        group = self.group
        if group is None:
            return
        assert "g" not in self.shard.shard.state.logged
        assert group.assignment_epoch <= group.epoch
        assert set(group.currents) <= set(group.members)
        assert set(group.targets) <= set(group.members)
        held = Counter(partition for current in group.currents.values() for partition in current.held())
        assert all(count == 1 for count in held.values())
        meant = Counter(
            (one, n) for target in group.targets.values() for one, numbers in target.items() for n in numbers
        )
        assert all(count == 1 for count in meant.values())

    def teardown(self) -> None:
        """Without disturbances, every member gets a share and every partition has a reader."""
        if not hasattr(self, "shard"):
            return
        self.let_commits_go()
        for _ in range(40):
            for client in self.consumers:
                assert client.beat() in EXPECTED_ERRORS
            for classic in self.classics:
                classic.step()
            self.shard.advance(3_000)
        names = [name for client in self.consumers for name in client.topics or client.options["regex"].split("|")]
        names += [name for classic in self.classics for name in classic.topics]
        expected = {
            (topic.id, number)
            for name in names
            if (topic := self.shard.image.topics.get(name)) is not None
            for number in range(len(topic.partitions))
        }
        assert self.readers() == Counter(expected)
        if self.group is not None and not self.group.is_empty:
            assert self.group.state is ConsumerGroupState.STABLE
        elif self.classics:
            assert self.shard.state() is GroupState.STABLE


ConsumerGroupMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=50)
TestConsumerGroup = ConsumerGroupMachine.TestCase
