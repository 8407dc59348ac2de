"""A consumer group (KIP-848): all of it is logged state.

The group's epoch rises with every change of what its members ask for or of the topics they mean. The target is what the
assignor made of one epoch; each member moves to it on its own, in steps that never give one partition to two members.
"""

from __future__ import annotations

import copy
from enum import StrEnum
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import EncodedRecord
from catchment.coordination.groups.consumer.members import (
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    ResolvedRegex,
    Target,
)
from catchment.coordination.groups.consumer.records import (
    CURRENT_KEY,
    EPOCH_KEY,
    MEMBER_KEY,
    REGEX_KEY,
    TARGET_EPOCH_KEY,
    TARGET_KEY,
)
from catchment.coordination.groups.modern_records import encode_key
from catchment.coordination.groups.state import GroupKind
from catchment.protocol.errors import ApiError

_NO_TARGET: Target = {}
_JOINING = CurrentAssignment()


class ConsumerGroupState(StrEnum):
    """The names are those that clients are told."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    __slots__ = (
        "assignment_epoch",
        "checked_version",
        "currents",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "owners",
        "regexes",
        "static_ids",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        """Of the topics that the group's epoch was made for."""
        self.assignment_epoch = 0
        """The epoch of the group that the target was made for."""
        self.members: dict[str, MemberMetadata] = {}
        self.static_ids: dict[str, str] = {}
        """The member id behind each instance id."""
        self.targets: dict[str, Target] = {}
        self.currents: dict[str, CurrentAssignment] = {}
        self.owners: dict[tuple[UUID, int], str] = {}
        """Who holds each partition, if only to give it up."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.checked_version: int | None = None
        """The metadata image that the topics were last compared with. This alone is volatile."""

    def copy(self) -> ConsumerGroup:
        other = copy.copy(self)
        for name in ("members", "static_ids", "targets", "currents", "owners", "regexes"):
            setattr(other, name, dict(getattr(self, name)))
        return other

    @property
    def kind(self) -> GroupKind:
        return GroupKind.CONSUMER

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self.is_reconciled(member_id) for member_id in self.members):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(name for member in self.members.values() for name in self.topics_of(member))

    def topics_of(self, member: MemberMetadata) -> frozenset[str]:
        """What a member subscribes to, by name or by a regular expression as it was last resolved."""
        names = frozenset(member.topics)
        resolved = self.regexes.get(member.regex) if member.regex else None
        return names if resolved is None else names.union(resolved.topics)

    def current(self, member_id: str) -> CurrentAssignment:
        return self.currents.get(member_id, _JOINING)

    def target(self, member_id: str) -> Target:
        return self.targets.get(member_id, _NO_TARGET)

    def is_reconciled(self, member_id: str) -> bool:
        current = self.current(member_id)
        return current.state is MemberState.STABLE and current.epoch == self.assignment_epoch

    def check_member(self, member_id: str, instance_id: str | None) -> MemberMetadata:
        """The member, or the error of somebody who is not, or no longer, a member."""
        if instance_id is not None:
            static_id = self.static_ids.get(instance_id)
            if static_id is None:
                raise ApiError(ErrorCode.unknown_member_id, f"Instance id '{instance_id}' is unknown.")
            if static_id != member_id:
                raise ApiError(ErrorCode.fenced_instance_id, f"Instance id '{instance_id}' belongs to another member.")
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.unknown_member_id, f"Member '{member_id}' is not a member of group '{self.group_id}'."
            )
        return member

    def set_member(self, member_id: str, member: MemberMetadata | None) -> None:
        former = self.members.pop(member_id, None)
        if former is not None and former.instance_id and self.static_ids.get(former.instance_id) == member_id:
            del self.static_ids[former.instance_id]
        if member is not None:
            self.members[member_id] = member
            if member.instance_id is not None:
                self.static_ids[member.instance_id] = member_id

    def set_target(self, member_id: str, target: Target | None) -> None:
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def set_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        former = self.currents.pop(member_id, None)
        for partition in former.held() if former is not None else ():
            if self.owners.get(partition) == member_id:
                del self.owners[partition]
        if current is not None:
            self.currents[member_id] = current
            for partition in current.held():
                self.owners[partition] = member_id

    def set_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved

    def tombstones(self) -> list[EncodedRecord]:
        """What deletes the group; its own record goes last, so that all others are deleted from a group that exists."""
        group_id = self.group_id
        keys = [encode_key(CURRENT_KEY, group_id, member_id) for member_id in self.currents]
        keys += [encode_key(TARGET_KEY, group_id, member_id) for member_id in self.targets]
        keys.append(encode_key(TARGET_EPOCH_KEY, group_id))
        keys += [encode_key(MEMBER_KEY, group_id, member_id) for member_id in self.members]
        keys += [encode_key(REGEX_KEY, group_id, regex) for regex in self.regexes]
        keys.append(encode_key(EPOCH_KEY, group_id))
        return [(key, None) for key in keys]
