"""Random commands, lost tails and replays against a small model: an acknowledged commit is never lost.

The model is the last value of each key in the log. The logged state of the shard equals it, before and after any crash. An
acknowledged offset stays until a newer one is logged. Every request is answered in the end, and a generation has at most one
leader.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kio.schema.errors import ErrorCode
from tests.coordination.groups.shards import LoggedShard

from catchment.coordination.groups.classic.commands import JoinResponse, LeavingMember, SyncResponse
from catchment.coordination.groups.classic.group import GroupState
from catchment.coordination.groups.records import GroupKey, OffsetKey, decode_group, decode_key, decode_offset
from catchment.coordination.groups.state import GroupLimits

GROUPS = ("a", "b")
PROTOCOLS = ((("range", b""), ("sticky", b"")), (("sticky", b"x"), ("range", b"")), (("other", b""),))

groups = st.sampled_from(GROUPS)
picks = st.integers(0, 5)
longest_wait_ms = 400_000


class ShardMachine(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from((0, 3000)), max_size=st.sampled_from((2, 100)))
    def start(self, delay_ms: int, max_size: int) -> None:
        self.shard = LoggedShard(GroupLimits(initial_rebalance_delay_ms=delay_ms, max_size=max_size))
        self.known: dict[str, list[tuple[str, int]]] = {group: [("", 0), ("unknown", 1)] for group in GROUPS}
        self.joins: list[tuple[str, list[JoinResponse]]] = []
        self.syncs: list[list[SyncResponse]] = []
        self.commits: list[tuple[str, int, int, list[list[ErrorCode]]]] = []
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.next_offset = 0

    def member(self, group: str, pick: int) -> tuple[str, int]:
        self.learn()
        known = self.known[group]
        return known[-1 - pick % len(known)]

    def learn(self) -> None:
        for group, answers in self.joins:
            for answer in answers:
                if answer.member_id and (answer.member_id, answer.generation) not in self.known[group]:
                    self.known[group].append((answer.member_id, answer.generation))

    @rule(
        group=groups,
        pick=picks,
        is_new=st.booleans(),
        protocol=st.sampled_from((0, 0, 1, 1, 2)),
        static=st.booleans(),
        dance=st.booleans(),
    )
    def join(self, group: str, pick: int, is_new: bool, protocol: int, static: bool, dance: bool) -> None:
        answers = self.shard.join(
            "" if is_new else self.member(group, pick)[0],
            group_id=group,
            instance_id="static" if static and is_new else None,
            protocols=PROTOCOLS[protocol],
            requires_known_member_id=dance,
        )
        self.joins.append((group, answers))

    @rule(group=groups, do_sync=st.booleans())
    def all_join_again(self, group: str, do_sync: bool) -> None:
        """Run correct members, so that there are large and stable groups to disturb."""
        alive = self.shard.shard.state.groups.get(group)
        for member in [] if alive is None else list(alive.members.values()):
            answers = self.shard.join(
                member.member_id, group_id=group, instance_id=member.instance_id, protocols=member.protocols
            )
            self.joins.append((group, answers))
        if alive is not None and do_sync:
            self.learn()
            shares = dict.fromkeys(alive.members, b"share")
            for member in list(alive.members.values()):
                self.syncs.append(
                    self.shard.sync(
                        member.member_id, alive.generation, shares, group_id=group, instance_id=member.instance_id
                    )
                )

    @rule(group=groups, pick=picks)
    def sync(self, group: str, pick: int) -> None:
        member_id, generation = self.member(group, pick)
        shares = {one: f"{generation}".encode() for one, _ in self.known[group]}
        self.syncs.append(self.shard.sync(member_id, generation, shares, group_id=group))

    @rule(group=groups, pick=picks)
    def heartbeat(self, group: str, pick: int) -> None:
        member_id, generation = self.member(group, pick)
        self.shard.heartbeat(member_id, generation, group_id=group)

    @rule(group=groups, pick=picks)
    def leave(self, group: str, pick: int) -> None:
        self.shard.leave(LeavingMember(self.member(group, pick)[0]), group_id=group)

    @rule(group=groups, pick=picks, partition=st.integers(0, 2), by_hand=st.booleans())
    def commit(self, group: str, pick: int, partition: int, by_hand: bool) -> None:
        member_id, generation = ("", -1) if by_hand else self.member(group, pick)
        self.next_offset += 1
        answers = self.shard.commit_later(
            self.next_offset, group_id=group, member_id=member_id, generation=generation, partition=partition
        )
        self.commits.append((group, partition, self.next_offset, answers))

    @rule(group=groups)
    def delete(self, group: str) -> None:
        if self.shard.delete(group) not in ([ErrorCode.group_id_not_found], [ErrorCode.non_empty_group]):
            self.forget(group)

    @rule()
    def expire(self) -> None:
        before = {group: set(self.shard.offsets(group)) for group in GROUPS}
        self.shard.call(lambda shard, now: shard.offsets.expire(now))
        for group in GROUPS:
            if before[group] - set(self.shard.offsets(group)):
                self.forget(group)

    def forget(self, group: str) -> None:
        """The group's offsets are deleted or expired: earlier acknowledged commits do not guarantee them any more."""
        self.commits = [commit for commit in self.commits if commit[0] != group]
        self.acknowledged = {key: offset for key, offset in self.acknowledged.items() if key[0] != group}

    @rule(milliseconds=st.sampled_from((1, 3000, 9000, 61_000, 700_000_000)))
    def pass_time(self, milliseconds: int) -> None:
        self.shard.advance(milliseconds)

    @rule()
    def hold_commits(self) -> None:
        self.shard.holds_commits = True

    @rule()
    def let_commits_go(self) -> None:
        self.shard.holds_commits = False
        self.shard.commit_all()

    @rule()
    def fail_writes_that_wait(self) -> None:
        self.shard.fail_all(ErrorCode.coordinator_not_available)

    @rule(lost=st.integers(0, 5))
    def crash(self, lost: int) -> None:
        """Lose a part of the uncommitted records."""
        self.shard.crash(max(self.shard.safe_count, len(self.shard.log) - lost))
        self.commits = [commit for commit in self.commits if commit[3]]
        assert all(answers for _, answers in self.joins)
        assert all(self.syncs)

    @invariant()
    def logged_state_is_what_the_log_says(self) -> None:
        last: dict[bytes, bytes | None] = dict(self.shard.log)
        expected_groups = {}
        expected_offsets: dict[str, dict[tuple[str, int], object]] = {group: {} for group in GROUPS}
        for key, value in last.items():
            subject = decode_key(key)
            if value is not None and isinstance(subject, GroupKey):
                expected_groups[subject.group_id] = decode_group(value)
            elif value is not None and isinstance(subject, OffsetKey):
                expected_offsets[subject.group_id][subject.topic, subject.partition] = decode_offset(value)
        assert self.shard.shard.state.logged == expected_groups
        for group in GROUPS:
            assert self.shard.offsets(group) == expected_offsets[group]
            exists = bool(expected_offsets[group]) or group in expected_groups
            assert not exists or self.shard.state(group) is not GroupState.DEAD

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        for group, partition, offset, answers in self.commits:
            if answers == [[ErrorCode.none]]:
                known = self.acknowledged.get((group, partition), 0)
                self.acknowledged[group, partition] = max(known, offset)
        for (group, partition), offset in self.acknowledged.items():
            assert self.shard.offsets(group)["t", partition].offset >= offset

    @invariant()
    def groups_are_sound(self) -> None:
        for group in self.shard.shard.state.groups.values():
            assert (group.state is GroupState.EMPTY) <= (not group.members)
            assert set(group.static_ids.values()) <= set(group.members)
            assert group.leader_id in group.members or not group.members
            assert set(group.pending_syncs) <= set(group.members)
            for member in group.members.values():
                # A static member that rejoins waits until its new id is logged.
                waits_for_log = member.is_static and group.state is GroupState.STABLE
                assert member.joining is None or waits_for_log or group.state is GroupState.PREPARING
                assert member.syncing is None or group.state is GroupState.COMPLETING

    @invariant()
    def no_request_is_answered_twice(self) -> None:
        assert all(len(answers) <= 1 for _, answers in self.joins)
        assert all(len(answers) <= 1 for answers in self.syncs)
        assert all(len(answers) <= 1 for *_, answers in self.commits)

    def teardown(self) -> None:
        """Nothing hangs: without further input, every waiting request is answered."""
        if not hasattr(self, "shard"):
            return
        self.shard.holds_commits = False
        self.shard.commit_all()
        self.shard.advance(longest_wait_ms)
        assert all(answers for *_, answers in self.commits)
        assert all(answers for _, answers in self.joins)
        assert all(self.syncs)


ShardMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestShard = ShardMachine.TestCase
