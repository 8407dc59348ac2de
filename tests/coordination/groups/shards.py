"""A shard of the group coordinator with its log, and the requests of classic clients."""

from __future__ import annotations

import itertools
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode
from tests.coordination.logged_shard import Logged

from catchment.coordination.groups.classic.commands import (
    JoinRequest,
    JoinResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from catchment.coordination.groups.classic.group import GroupState
from catchment.coordination.groups.offset_commands import CommitRequest
from catchment.coordination.groups.records import CommittedOffset, OffsetToCommit
from catchment.coordination.groups.shard import GroupShard
from catchment.coordination.groups.state import GroupLimits

LIMITS = GroupLimits(initial_rebalance_delay_ms=0)
RANGE = (("range", b"\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"),)
"""The metadata of a consumer that subscribes to topic `t`."""

Result = TypeVar("Result")


class LoggedShard(Logged[GroupShard]):
    def __init__(self, limits: GroupLimits = LIMITS) -> None:
        self.limits = limits
        self._fresh = itertools.count(1)
        super().__init__()

    def new_shard(self) -> GroupShard:
        return GroupShard(self.limits)

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
    ) -> list[JoinResponse]:
        """Send a join, and return the responses so far: an empty list is a join that waits."""
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
        answers: list[JoinResponse] = []
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
    ) -> list[SyncResponse]:
        request = SyncRequest(
            group_id, generation, member_id, instance_id, protocol_type, protocol_name, assignments or {}
        )
        answers: list[SyncResponse] = []
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
        """The error codes, or an empty list while the commit waits."""
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
        """Send a commit, and return the responses so far."""
        outcomes: list[list[ErrorCode]] = []
        offsets = [OffsetToCommit(topic, partition, offset, 3, metadata)]
        self.call(
            lambda shard, now: shard.offsets.commit(
                CommitRequest(group_id, generation, member_id, instance_id, offsets), outcomes.append, now
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

    def stable_group(self, count: int = 1, **options: Any) -> list[JoinResponse]:
        """Bring a new group to its first stable generation, and return the join responses, the leader's first.

        They join within the delay of an empty group, so the limits must set one if there are several.
        """
        joins = [self.join(**options) for _ in range(count)]
        self.advance(self.limits.initial_rebalance_delay_ms * 2)
        answers = [answered for (answered,) in joins]
        for answer in answers:
            self.sync(answer.member_id, answer.generation, {one.member_id: b"mine" for one in answers})
        assert self.state() is GroupState.STABLE
        return answers
