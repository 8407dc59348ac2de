"""A classic group and its members: the generation, and the state of a rebalance.

All of this is volatile. The log holds the `GroupRecord` of the last generation that got its assignments, or of the moment
when the last member left. A failover starts from that record: every member is there, with a new session and no waiting
request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from kio.schema.errors import ErrorCode

from catchment.coordination.groups.classic.commands import (
    JoinReply,
    JoinRequest,
    JoinResponse,
    Protocols,
    SyncReply,
    SyncResponse,
)
from catchment.coordination.groups.classic.consumer_protocol import subscribed_topics
from catchment.coordination.groups.records import NO_TIME, GroupRecord, MemberRecord
from catchment.protocol.errors import ApiError

CONSUMER = "consumer"


class GroupState(StrEnum):
    """The names are those of the protocol."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MemberT = TypeVar("MemberT")


def find_member(
    group_id: str,
    members: Mapping[str, MemberT],
    static_ids: Mapping[str, str],
    member_id: str,
    instance_id: str | None,
) -> MemberT:
    """The member; ApiError where the id is unknown, or another member has taken over the instance id."""
    if instance_id is not None:
        static_id = static_ids.get(instance_id)
        if static_id is None:
            raise ApiError(ErrorCode.unknown_member_id, f"Instance id '{instance_id}' is unknown.")
        if static_id != member_id:
            raise ApiError(ErrorCode.fenced_instance_id, f"Instance id '{instance_id}' belongs to another member.")
    member = members.get(member_id)
    if member is None:
        raise ApiError(ErrorCode.unknown_member_id, f"Member '{member_id}' is not a member of group '{group_id}'.")
    return member


class Group:
    __slots__ = (
        "generation",
        "group_id",
        "has_new_members",
        "is_initial_rebalance",
        "leader_id",
        "members",
        "pending_ids",
        "pending_syncs",
        "protocol_name",
        "protocol_type",
        "state",
        "state_time_ms",
        "static_ids",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_time_ms = NO_TIME
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        """The member id of each instance id."""
        self.pending_ids: dict[str, None] = {}
        """Ids that were assigned to members that have not joined with them yet (KIP-394)."""
        self.pending_syncs: dict[str, None] = {}
        """Members of the generation that have not sent SyncGroup."""
        self.is_initial_rebalance = False
        """Whether the group was empty before this rebalance, so that more members are likely to join."""
        self.has_new_members = False

    @classmethod
    def from_record(cls, group_id: str, record: GroupRecord) -> Group:
        group = cls(group_id)
        group.generation = record.generation
        group.protocol_type = record.protocol_type or None
        group.state_time_ms = record.state_time_ms
        if record.members:
            group.state = GroupState.STABLE
            group.protocol_name = record.protocol_name
            for member in record.members:
                group.add(Member.from_record(member, record.protocol_name))
            group.leader_id = record.leader_id
        return group

    def to_record(self, assignments: dict[str, bytes], now_ms: int) -> GroupRecord:
        return GroupRecord(
            self.protocol_type or "",
            self.generation,
            self.protocol_name,
            self.leader_id,
            now_ms,
            tuple(
                member.to_record(self.protocol_name, assignments.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

    @property
    def assignments(self) -> dict[str, bytes]:
        return {member.member_id: member.assignment for member in self.members.values()}

    @property
    def is_idle(self) -> bool:
        """Whether it has no member and expects none."""
        return self.state is GroupState.EMPTY and not self.pending_ids

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def have_all_joined(self) -> bool:
        return not self.pending_ids and all(member.joining is not None for member in self.members.values())

    @property
    def topics(self) -> frozenset[str] | None:
        """The topics that the members subscribe to; None if the protocol is not `consumer`, or a subscription cannot be read."""
        if self.protocol_type != CONSUMER or self.protocol_name is None or not self.members:
            return frozenset() if self.protocol_type == CONSUMER and not self.members else None
        found: frozenset[str] = frozenset()
        for member in self.members.values():
            topics = subscribed_topics(member.metadata(self.protocol_name))
            if topics is None:
                return None
            found |= topics
        return found

    def move_to(self, state: GroupState, now_ms: int) -> None:
        self.state = state
        self.state_time_ms = now_ms

    def add(self, member: Member) -> None:
        self.members[member.member_id] = member
        self.pending_ids.pop(member.member_id, None)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: Member, error: ErrorCode = ErrorCode.unknown_member_id) -> None:
        member.cancel_requests(error)
        del self.members[member.member_id]
        self.pending_syncs.pop(member.member_id, None)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.member_id:
            del self.static_ids[member.instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static(self, old: Member, new: Member) -> None:
        """Replace a static member that rejoined under a new member id."""
        was_leader = self.leader_id == old.member_id
        self.remove(old, ErrorCode.fenced_instance_id)
        self.add(new)
        if was_leader:
            self.leader_id = new.member_id

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member; ApiError where the id is unknown or fenced."""
        return find_member(self.group_id, self.members, self.static_ids, member_id, instance_id)

    def supports(self, request: JoinRequest) -> bool:
        """Whether a member with these protocols can join the group."""
        if self.state is GroupState.EMPTY:
            return bool(request.protocol_type and request.protocols)
        if request.protocol_type != self.protocol_type:
            return False
        return any(all(member.supports(name) for member in self.members.values()) for name, _ in request.protocols)

    def select_protocol(self) -> str:
        """The protocol that most members prefer, among those that all of them support."""
        members = list(self.members.values())
        candidates = frozenset(
            name for name, _ in members[0].protocols if all(member.supports(name) for member in members)
        )
        votes = Counter(member.vote(candidates) for member in members)
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has joined; False if none has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.joining is not None:
            return True
        joined = next((member for member in self.members.values() if member.joining is not None), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    def begin_generation(self, now_ms: int) -> None:
        self.generation = (self.generation + 1) & 0x7FFFFFFF
        self.pending_syncs.clear()
        self.has_new_members = False
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move_to(GroupState.COMPLETING, now_ms)
        else:
            self.protocol_name = None
            self.leader_id = None
            self.move_to(GroupState.EMPTY, now_ms)

    def join_response(self, member: Member) -> JoinResponse:
        """The response to a member of this generation. Only the leader gets the list of members."""
        is_leader = member.member_id == self.leader_id
        return JoinResponse(
            ErrorCode.none,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader_id or "",
            members=self.member_metadata() if is_leader else (),
        )

    def member_metadata(self) -> tuple[tuple[str, str | None, bytes], ...]:
        return tuple(
            (member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )


class Member:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """Whether its first JoinGroup still waits: until the response, it cannot send heartbeats."""
        self.joining: JoinReply | None = None
        self.syncing: SyncReply | None = None

    @classmethod
    def from_record(cls, record: MemberRecord, protocol_name: str | None) -> Member:
        return cls(
            record.member_id,
            record.instance_id,
            record.client_id,
            record.client_host,
            record.rebalance_timeout_ms,
            record.session_timeout_ms,
            ((protocol_name or "", record.subscription),),
            record.assignment,
        )

    def to_record(self, protocol_name: str | None, assignment: bytes) -> MemberRecord:
        return MemberRecord(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol_name),
            assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a response, and therefore sends no heartbeat."""
        return self.joining is not None or self.syncing is not None

    def supports(self, protocol_name: str) -> bool:
        return any(name == protocol_name for name, _ in self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The first of its protocols among the candidates."""
        return next(name for name, _ in self.protocols if name in candidates)

    def wait_for_join(self, reply: JoinReply) -> None:
        """Replace an earlier join of the same member, whose connection is gone by now."""
        self.answer_join(JoinResponse(ErrorCode.rebalance_in_progress, self.member_id))
        self.joining = reply

    def wait_for_sync(self, reply: SyncReply) -> None:
        self.answer_sync(SyncResponse(ErrorCode.rebalance_in_progress))
        self.syncing = reply

    def answer_join(self, answer: JoinResponse) -> None:
        if self.joining is not None:
            reply, self.joining = self.joining, None
            reply(answer)

    def answer_sync(self, answer: SyncResponse) -> None:
        if self.syncing is not None:
            reply, self.syncing = self.syncing, None
            reply(answer)

    def cancel_requests(self, error: ErrorCode) -> None:
        """Answer the waiting requests with an error: the member is no longer part of the group."""
        self.answer_join(JoinResponse(error))
        self.answer_sync(SyncResponse(error))
