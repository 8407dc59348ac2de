"""Random members, topics, crashes and replays: responses stay true, and a replay always yields the logged state.

No partition is assigned before its share state is initialized. A member that has received an epoch stays a member in that
epoch or a later one, until it leaves or its session expires. With all members up to date, every readable partition has a
reader.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kio.schema.errors import ErrorCode
from tests.coordination.groups.share.share_shards import RETRY_MS, SESSION_MS, ShareShard

from catchment.coordination.groups.modern import LEAVING, PartitionsByTopic
from catchment.coordination.groups.share.group import ShareGroup
from catchment.coordination.groups.share.heartbeat import HeartbeatResponse

GROUPS = ("g", "h")
NAMES = ("t", "u")
MEMBERS = ("a", "b", "c")

groups = st.sampled_from(("g", "g", "g", "h"))
picks = st.integers(0, 5)
members = st.sampled_from(MEMBERS)
subscriptions = st.sets(st.sampled_from(NAMES), min_size=1).map(lambda names: tuple(sorted(names)))


def logged_state(group: ShareGroup) -> tuple[object, ...]:
    return (
        group.epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.members,
        group.targets,
        group.currents,
        group.partitions,
    )


class Beat(NamedTuple):
    group_id: str
    member_id: str
    time_ms: int
    log_end: int
    """A response is valid once all of the log before it is committed: the broker waits for that."""
    answers: list[HeartbeatResponse]


class ShareGroupMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.shard = ShareShard()
        self.shard.make_topic("t", 2)
        self.shard.make_topic("u", 1)
        self.beats: list[Beat] = []
        self.ends = [0]
        """The length of the log after each step: a crash loses a batch as a whole or not at all."""
        self.epochs: dict[tuple[str, str], int] = {}
        """The last epoch that each member has received."""
        self.since_ms: dict[tuple[str, str], int] = {}
        """The time of the last heartbeat of each confirmed member."""
        self.to_make: list[tuple[str, PartitionsByTopic]] = []
        self.made: dict[str, set[tuple[UUID, int]]] = {group_id: set() for group_id in GROUPS}

    def beat(self, group_id: str, member_id: str, epoch: int, topics: tuple[str, ...] | None) -> None:
        answers = self.shard.beat_later(member_id, epoch, topics, group_id)
        self.beats.append(Beat(group_id, member_id, self.shard.now.monotonic_ms, len(self.shard.log), answers))

    @rule(group_id=groups, member_id=members, topics=subscriptions)
    def join(self, group_id: str, member_id: str, topics: tuple[str, ...]) -> None:
        self.beat(group_id, member_id, 0, topics)

    def member(self, pick: int) -> tuple[str, str]:
        """A confirmed member, if there is any."""
        known = [*self.epochs] or [("g", "a")]
        return known[pick % len(known)]

    @rule(pick=picks, off_by=st.sampled_from((0, 0, 0, 1, -1)))
    def stay(self, pick: int, off_by: int) -> None:
        key = self.member(pick)
        self.beat(*key, max(self.epochs.get(key, 1) + off_by, 1), None)

    @rule(pick=picks, topics=subscriptions)
    def subscribe(self, pick: int, topics: tuple[str, ...]) -> None:
        key = self.member(pick)
        self.beat(*key, self.epochs.get(key, 1), topics)

    @rule(pick=picks)
    def leave(self, pick: int) -> None:
        group_id, member_id = self.member(pick)
        self.epochs.pop((group_id, member_id), None)
        # A response in flight must not make it a member again.
        self.beats = [beat for beat in self.beats if (beat.group_id, beat.member_id) != (group_id, member_id)]
        self.shard.beat_later(member_id, LEAVING, None, group_id)

    @rule(is_made=st.booleans())
    def make_state(self, is_made: bool) -> None:
        if self.to_make:
            group_id, partitions = self.to_make.pop(0)
            if is_made:
                self.made[group_id].update((id_, number) for id_, numbers in partitions.items() for number in numbers)
            self.shard.call(
                lambda shard, _: shard.share_groups.initialization.finish(
                    group_id, partitions, lambda _: None, has_failed=not is_made
                )
            )

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 4))
    def make_topic(self, name: str, count: int) -> None:
        known = self.shard.image.topics.get(name)
        self.shard.make_topic(name, count if known is None else max(count, len(known.partitions)))

    @rule(name=st.sampled_from(NAMES), is_settled=st.booleans())
    def delete_topic(self, name: str, is_settled: bool) -> None:
        if name in self.shard.image.topics:
            self.shard.delete_topic(name)
            if is_settled:
                self.all_stay("g")

    @rule(pick=picks, topics=subscriptions)
    def subscribe_in_quiet_times(self, pick: int, topics: tuple[str, ...]) -> None:
        """The volatile check results of a group must not hide a change."""
        self.all_stay("g")
        self.all_stay("g")
        self.subscribe(pick, topics)
        self.all_stay("g")

    @rule(group_id=groups)
    def delete_group(self, group_id: str) -> None:
        initialization = self.shard.shard.share_groups.initialization
        self.shard.call(lambda _, __: initialization.begin_deleting(group_id, lambda _: None))
        self.shard.call(lambda _, __: initialization.delete_group(group_id, lambda _: None))

    @rule(milliseconds=st.sampled_from((10, 20_000, SESSION_MS)))
    def wait(self, milliseconds: int) -> None:
        self.shard.advance(milliseconds)
        now_ms = self.shard.now.monotonic_ms
        self.epochs = {key: epoch for key, epoch in self.epochs.items() if self.since_ms[key] + SESSION_MS > now_ms}
        self.beats = [beat for beat in self.beats if beat.time_ms + SESSION_MS > now_ms]

    @rule(holds=st.booleans())
    def hold_or_commit(self, holds: bool) -> None:
        self.shard.holds_commits = holds
        if not holds:
            self.shard.commit_all()

    @rule(lost=st.integers(0, 3))
    def crash(self, lost: int) -> None:
        kept = max(self.shard.safe_count, self.ends[-1 - lost % len(self.ends)])
        self.beats, self.to_make = [], []
        self.shard.crash(kept)
        self.ends = [end for end in self.ends if end <= kept]

    @rule(group_id=groups)
    def all_stay(self, group_id: str) -> None:
        """Run correct members on a healthy broker: then every subscribed partition has a reader."""
        self.hold_or_commit(False)
        for _ in range(4):
            group = self.shard.shard.share_groups.groups.by_id.get(group_id)
            for member_id in () if group is None else list(group.members):
                assert group is not None
                self.beat(group_id, member_id, group.current(member_id).epoch, None)
            self.listen()
            while self.to_make:
                self.make_state(True)
            # An initialization that failed or was lost in a crash is requested again after the retry interval.
            self.wait(RETRY_MS // 2)
        if group is not None and group.members:
            has = {(id_, n) for current in group.currents.values() for id_, ns in current.assigned.items() for n in ns}
            topics = [self.shard.image.topics[name] for name in group.topics if name in self.shard.image.topics]
            assert has == {(topic.id, state.partition) for topic in topics for state in topic.partitions}

    def listen(self) -> None:
        """Apply the responses that have arrived."""
        beats, self.beats = self.beats, []
        for beat in beats:
            if not beat.answers or beat.log_end > self.shard.safe_count:
                self.beats.append(beat)
            elif beat.answers[0].error is ErrorCode.none:
                self.hear(beat.group_id, beat.member_id, beat.time_ms, beat.answers[0])

    def hear(self, group_id: str, member_id: str, time_ms: int, answer: HeartbeatResponse) -> None:
        given = {(id_, number) for id_, numbers in (answer.assignment or {}).items() for number in numbers}
        assert given <= self.made[group_id]
        self.epochs[group_id, member_id] = max(answer.member_epoch, self.epochs.get((group_id, member_id), 0))
        self.since_ms[group_id, member_id] = max(time_ms, self.since_ms.get((group_id, member_id), 0))
        if answer.to_initialize:
            self.to_make.append((group_id, answer.to_initialize))

    @invariant()
    def partitions_without_state_are_not_assigned_and_responses_stay_true(self) -> None:
        if not hasattr(self, "shard"):
            return
        self.ends.append(len(self.shard.log))
        self.listen()
        for (group_id, member_id), epoch in self.epochs.items():
            group = self.shard.group(group_id)
            assert member_id in group.members
            assert group.current(member_id).epoch >= epoch

    @invariant()
    def epochs_are_in_order(self) -> None:
        if hasattr(self, "shard"):
            for group in self.shard.shard.share_groups.groups.by_id.values():
                assert group.assignment_epoch <= group.epoch
                for current in group.currents.values():
                    assert current.previous_epoch <= current.epoch <= group.assignment_epoch

    @invariant()
    def a_replay_yields_the_same_groups(self) -> None:
        if not hasattr(self, "shard"):
            return
        fresh = self.shard.new_shard()
        for key, value in self.shard.log:
            fresh.replay(key, value)
        ours, theirs = self.shard.shard.share_groups.groups.by_id, fresh.share_groups.groups.by_id
        assert {id_: logged_state(ours[id_]) for id_ in ours} == {id_: logged_state(theirs[id_]) for id_ in theirs}
        assert {id_ for id_ in GROUPS if self.shard.shard.state.kind_of(id_)} == set(ours)


TestShareGroups = ShareGroupMachine.TestCase
TestShareGroups.settings = settings(max_examples=100, stateful_step_count=40)
