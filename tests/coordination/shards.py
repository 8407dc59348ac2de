"""A shard with a log in a list and a clock that stands still: what the broker's runner does, step by step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from catchment.coordination.commands import (
    GroupLimits,
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    OffsetToCommit,
    SyncAnswer,
    SyncRequest,
)
from catchment.coordination.group import GroupState
from catchment.coordination.group_records import CommittedOffset
from catchment.coordination.replayed import EncodedRecord, Write
from catchment.coordination.shard import GroupShard
from catchment.coordination.timers import Moment

START_MS = 1_700_000_000_000
LIMITS = GroupLimits(initial_rebalance_delay_ms=0)
RANGE = (("range", b"\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"),)
"""The metadata of a consumer that subscribes to topic `t`."""

Result = TypeVar("Result")


class LoggedShard:
    """Writes are safe at once, unless `holds_commits`: then they wait for `commit_all`."""

    def __init__(self, limits: GroupLimits = LIMITS) -> None:
        self.limits = limits
        self.log: list[EncodedRecord] = []
        self.holds_commits = False
        self.pending: list[Write] = []
        self.safe_count = 0
        """How many records of the log cannot be lost."""
        self.now = Moment(START_MS, 0)
        self.shard = self.new_shard()
        self._fresh = itertools.count(1)

    def new_shard(self) -> GroupShard:
        return GroupShard(self.limits)

    def call(self, command: Callable[[GroupShard, Moment], Result]) -> Result:
        result = command(self.shard, self.now)
        self._drain()
        return result

    def commit_all(self) -> None:
        self.safe_count = len(self.log)
        pending, self.pending = self.pending, []
        for write in pending:
            write.committed(self.now)
        self._drain()

    def fail_all(self, error: ErrorCode) -> None:
        pending, self.pending = self.pending, []
        for write in pending:
            write.failed(error, self.now)
        self._drain()

    def crash(self, kept: int | None = None) -> None:
        """Lose the shard and all of the log but its first `kept` records; replay those into a new one."""
        self.shard.close(ErrorCode.not_coordinator)
        self.pending = []
        del self.log[len(self.log) if kept is None else kept :]
        self.safe_count = len(self.log)
        self.shard = self.new_shard()
        for key, value in self.log:
            self.shard.replay(key, value)
        self.call(lambda shard, now: shard.loaded(now))

    def advance(self, milliseconds: int) -> None:
        """Let time pass, deadline by deadline."""
        end_ms = self.now.steady_ms + milliseconds
        while (deadline_ms := self.shard.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self._move(max(deadline_ms, self.now.steady_ms))
            self.call(lambda shard, now: shard.on_time(now))
        self._move(end_ms)

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        requires_known_member_id: bool = False,
        supports_skipping_assignment: bool = True,
    ) -> list[JoinAnswer]:
        """The answers so far: an empty list is a join that waits."""
        request = JoinRequest(
            group_id,
            member_id,
            instance_id,
            "client",
            "/host",
            session_timeout_ms,
            rebalance_timeout_ms,
            protocol_type,
            protocols,
            str(next(self._fresh)),
            requires_known_member_id,
            supports_skipping_assignment,
        )
        answers: list[JoinAnswer] = []
        self.call(lambda shard, now: shard.classic.join(request, answers.append, now))
        self.advance(0)
        return answers

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> list[SyncAnswer]:
        request = SyncRequest(
            group_id, generation, member_id, instance_id, protocol_type, protocol_name, assignments or {}
        )
        answers: list[SyncAnswer] = []
        self.call(lambda shard, now: shard.classic.sync(request, answers.append, now))
        return answers

    def heartbeat(
        self, member_id: str, generation: int, *, group_id: str = "g", instance_id: str | None = None
    ) -> ErrorCode:
        return self.call(lambda shard, now: shard.classic.heartbeat(group_id, generation, member_id, instance_id, now))

    def leave(self, *members: LeavingMember, group_id: str = "g") -> list[ErrorCode]:
        return self.call(lambda shard, now: shard.classic.leave(group_id, members, now))

    def commit(
        self,
        offset: int,
        *,
        group_id: str = "g",
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
        topic: str = "t",
        partition: int = 0,
        metadata: str = "",
    ) -> list[ErrorCode]:
        """The outcome, or an empty list while it is not known."""
        outcomes = self.commit_later(offset, group_id, generation, member_id, instance_id, topic, partition, metadata)
        return outcomes[0] if outcomes else []

    def commit_later(
        self,
        offset: int,
        group_id: str = "g",
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
        topic: str = "t",
        partition: int = 0,
        metadata: str = "",
    ) -> list[list[ErrorCode]]:
        """The answers so far."""
        outcomes: list[list[ErrorCode]] = []
        offsets = [OffsetToCommit(topic, partition, offset, 3, metadata)]
        self.call(
            lambda shard, now: shard.offsets.commit(
                group_id, generation, member_id, instance_id, offsets, outcomes.append, now
            )
        )
        return outcomes

    def offsets(self, group_id: str = "g") -> dict[tuple[str, int], CommittedOffset]:
        return self.call(lambda shard, _: dict(shard.offsets.fetch(group_id)))

    def delete(self, group_id: str = "g") -> list[ErrorCode]:
        outcomes: list[ErrorCode] = []
        self.call(lambda shard, _: shard.groups.delete(group_id, outcomes.append))
        return outcomes

    def state(self, group_id: str = "g") -> GroupState:
        group = self.shard.state.groups.get(group_id)
        return GroupState.DEAD if group is None else group.state

    def stable_group(self, count: int = 1, **options: Any) -> list[JoinAnswer]:
        """Bring a new group to its first stable generation: what each member was told, the leader first.

        They join within the delay of an empty group, so the limits must have one if there are several.
        """
        joins = [self.join(**options) for _ in range(count)]
        self.advance(self.limits.initial_rebalance_delay_ms * 2)
        answers = [answered for (answered,) in joins]
        for answer in answers:
            self.sync(answer.member_id, answer.generation, {one.member_id: b"mine" for one in answers})
        assert self.state() is GroupState.STABLE
        return answers

    def _move(self, steady_ms: int) -> None:
        self.now = Moment(self.now.wall_ms + steady_ms - self.now.steady_ms, steady_ms)

    def _drain(self) -> None:
        while writes := self.shard.take_writes():
            for write in writes:
                self.log += write.records
                for key, value in write.records:
                    self.shard.replay(key, value)
                if self.holds_commits:
                    self.pending.append(write)
                else:
                    self.safe_count = len(self.log)
                    write.committed(self.now)
