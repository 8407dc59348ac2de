"""ShareGroupHeartbeat: members join, change their subscription and leave, all with one request.

A member generates its own id. A response is sent once its records are committed. A member that sends no heartbeat within its
session time-out is removed as if it had left; its partitions are assigned again with the next heartbeat of another member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import is_too_long
from catchment.coordination.groups.modern import JOINING, LEAVING, NO_PARTITIONS, MemberMetadata, PartitionsByTopic
from catchment.coordination.groups.share.assignment import advance, next_assignment
from catchment.coordination.groups.share.group import ShareGroup, ShareGroupLimits
from catchment.coordination.groups.share.records import Draft, ShareGroups
from catchment.coordination.groups.share.state_partitions import Initialization
from catchment.coordination.groups.state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError


class HeartbeatRequest(NamedTuple):
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    topics: tuple[str, ...] | None
    """None if the subscription has not changed since the last heartbeat."""
    client_id: str
    client_host: str


class HeartbeatResponse(NamedTuple):
    error: ErrorCode
    message: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: PartitionsByTopic | None = None
    """None if it has not changed."""
    to_initialize: PartitionsByTopic = NO_PARTITIONS
    """Partitions whose share state has to be initialized before they can be assigned."""
    state_epoch: int = 0
    """The epoch to initialize them with."""


HeartbeatReply = Callable[[HeartbeatResponse], None]


class ShareMembership:
    __slots__ = ("_groups", "_initialization", "_state", "_terms")

    def __init__(
        self, state: ShardState, groups: ShareGroups, initialization: Initialization, terms: ShareGroupLimits
    ) -> None:
        self._state = state
        self._groups = groups
        self._initialization = initialization
        self._terms = terms

    def heartbeat(self, request: HeartbeatRequest, reply: HeartbeatReply, now: Moment) -> None:
        try:
            _check(request)
            if request.member_epoch == LEAVING:
                self._leave(request, reply)
            else:
                self._heartbeat(request, reply, now)
        except ApiError as error:
            reply(HeartbeatResponse(error.code, error.message))

    def start_sessions(self, now: Moment) -> None:
        """Start the session of every member, once the log is replayed."""
        for group in self._groups.by_id.values():
            for member_id in group.members:
                self._start_session(group.group_id, member_id, now)

    def _heartbeat(self, request: HeartbeatRequest, reply: HeartbeatReply, now: Moment) -> None:
        group_id, member_id = request.group_id, request.member_id
        group = self._group(request)
        former = self._check_member(group, request)
        image = self._state.image
        draft = Draft(group)
        member = _updated(former, request)
        if member != former:
            draft.put_member(member_id, member)
        has_new_topics = former is None or former.topics != member.topics
        advance(draft, image, has_new_topics=has_new_topics, now=now)
        current = next_assignment(draft.group, member_id, image, has_new_topics=has_new_topics)
        if current != group.currents.get(member_id):
            draft.put_current(member_id, current)
        to_initialize = self._initialization.begin(draft, image, now)
        self._start_session(group_id, member_id, now)
        # A member whose epoch is not the newest may have missed a response.
        includes_assignment = request.topics is not None or request.member_epoch != current.epoch
        answer = HeartbeatResponse(
            ErrorCode.none,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self._terms.heartbeat_interval_ms(group_id),
            assignment=current.assigned
            if includes_assignment or current.assigned != group.current(member_id).assigned
            else None,
            to_initialize=to_initialize,
            state_epoch=draft.group.epoch,
        )
        if draft.records:
            self._write(draft, answer, reply)
        else:
            group.checked_version, group.checked_partitions = image.version, group.partitions
            reply(answer)

    def _leave(self, request: HeartbeatRequest, reply: HeartbeatReply) -> None:
        group = self._groups.find(request.group_id)
        if request.member_id not in group.members:
            raise _unknown(request.group_id, request.member_id)
        draft = Draft(group)
        draft.remove_member(request.member_id)
        self._state.timers.cancel(_session(request.group_id, request.member_id))
        self._write(draft, HeartbeatResponse(ErrorCode.none, member_epoch=LEAVING), reply)

    def _group(self, request: HeartbeatRequest) -> ShareGroup:
        if request.member_epoch == JOINING:
            return self._groups.find_or_draft(request.group_id)
        return self._groups.find(request.group_id, missing="Share group {} not found.")

    def _check_member(self, group: ShareGroup, request: HeartbeatRequest) -> MemberMetadata | None:
        """The member, or None for a new one; ApiError if it is unknown, fenced, or the group is full."""
        member = group.members.get(request.member_id)
        if member is None:
            if len(group.members) >= self._terms.max_size:
                limit = self._terms.max_size
                reason = f"The share group has reached its maximum capacity of {limit} members."
                raise ApiError(ErrorCode.group_max_size_reached, reason)
            if request.member_epoch != JOINING:
                raise _unknown(request.group_id, request.member_id)
            return None
        current = group.current(request.member_id)
        if request.member_epoch not in (JOINING, current.epoch, current.previous_epoch):
            reason = f"The member is in epoch {current.epoch}, not {request.member_epoch}. It must rejoin the group."
            raise ApiError(ErrorCode.fenced_member_epoch, reason)
        return member

    def _start_session(self, group_id: str, member_id: str, now: Moment) -> None:
        deadline_ms = now.monotonic_ms + self._terms.session_timeout_ms(group_id)
        key = _session(group_id, member_id)
        self._state.timers.set(key, deadline_ms, lambda _: self._expire(group_id, member_id))

    def _expire(self, group_id: str, member_id: str) -> None:
        group = self._groups.by_id.get(group_id)
        if group is not None and member_id in group.members:
            draft = Draft(group)
            draft.remove_member(member_id)
            self._state.write(draft.records)

    def _write(self, draft: Draft, answer: HeartbeatResponse, reply: HeartbeatReply) -> None:
        self._state.write(
            draft.records,
            committed=lambda _: reply(answer),
            failed=lambda error, _: reply(HeartbeatResponse(error)),
        )


def _check(request: HeartbeatRequest) -> None:
    """ApiError for an invalid request, in the order of Kafka's checks."""
    names = request.topics or ()
    for is_wrong, message in (
        (not request.member_id.strip(), "A member needs an id."),
        (not request.group_id.strip(), "A group needs an id."),
        (request.rack_id is not None and not request.rack_id.strip(), "A rack may be absent, but not empty."),
        (request.member_epoch < LEAVING, f"The member epoch {request.member_epoch} is invalid."),
        (request.member_epoch == JOINING and not names, "A member that joins must subscribe to topics."),
        (
            any(map(is_too_long, (request.group_id, request.member_id, request.rack_id, *names))),
            "A name is longer than a record can hold.",
        ),
    ):
        if is_wrong:
            raise ApiError(ErrorCode.invalid_request, message)


def _updated(former: MemberMetadata | None, request: HeartbeatRequest) -> MemberMetadata:
    known = former or MemberMetadata()
    return MemberMetadata(
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=known.topics if request.topics is None else tuple(sorted(set(request.topics))),
    )


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "share session", group_id, member_id


def _unknown(group_id: str, member_id: str) -> ApiError:
    return ApiError(ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group_id}.")
