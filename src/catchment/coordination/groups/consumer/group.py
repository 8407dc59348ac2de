"""A consumer group (KIP-848): the coordinator assigns, and members move to their targets.

The steps of the members never give one partition to two of them. All of a group is logged state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.coordination.groups.classic.group import find_member
from catchment.coordination.groups.modern import JOINING, KeyVersions, MemberMetadata, ModernGroup, put
from catchment.coordination.groups.modern_records import encode_key
from catchment.coordination.groups.state import GroupKind
from catchment.protocol.errors import ApiError

REGEX_KEY: Final = 16
FIRST_COMMIT_VERSION_WITH_EPOCHS: Final = 9
"""The first version of OffsetCommit that members of the consumer protocol may use."""

TopicIdPartition = tuple[UUID, int]
STATIC_LEAVING: Final = -2
"""The epoch of a static member that leaves and intends to come back. Its assignment is kept for it."""

AssignedPartitions = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, each with the epoch of the group in which it was assigned (KIP-1251)."""
NOTHING: Final[AssignedPartitions] = MappingProxyType({})


class MemberState(IntEnum):
    """How far a member has moved to its target assignment. The numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It holds partitions that it has to revoke first."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members hold."""


class CurrentAssignment(NamedTuple):
    """The partitions that a member has, and its epoch."""

    epoch: int = JOINING
    previous_epoch: int = JOINING
    """The epoch before. A member that missed the last response sends it."""
    state: MemberState = MemberState.STABLE
    assigned: AssignedPartitions = NOTHING
    revoking: AssignedPartitions = NOTHING
    """Partitions that it has to revoke and may still read."""

    def at_epoch(self, epoch: int) -> CurrentAssignment:
        return self if epoch == self.epoch else self._replace(epoch=epoch, previous_epoch=self.epoch)

    def held(self) -> Iterator[TopicIdPartition]:
        """All partitions that no other member may get."""
        for partitions in (self.assigned, self.revoking):
            for topic_id, numbers in partitions.items():
                for number in numbers:
                    yield topic_id, number


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched when it was last evaluated."""

    topics: tuple[str, ...]
    version: int
    """The version of the metadata image."""
    time_ms: int


_NOT_YET_ASSIGNED: Final = CurrentAssignment()


class ConsumerGroupState(StrEnum):
    """The names are those of the protocol."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup(ModernGroup[CurrentAssignment]):
    __slots__ = ("owners", "regexes", "static_ids")

    kind = GroupKind.CONSUMER
    keys = KeyVersions(epoch=3, member=5, target_epoch=6, target=7, current=8)
    copied = (*ModernGroup.copied, "static_ids", "owners", "regexes")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_ids: dict[str, str] = {}
        """The member id of each instance id."""
        self.owners: dict[TopicIdPartition, str] = {}
        """The member that holds each partition, if only until it has revoked it."""
        self.regexes: dict[str, ResolvedRegex] = {}

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
        """The topics that a member subscribes to, by name or by its regular expression as it was last resolved."""
        names = frozenset(member.topics)
        resolved = self.regexes.get(member.regex) if member.regex else None
        return names if resolved is None else names.union(resolved.topics)

    def current(self, member_id: str) -> CurrentAssignment:
        return self.currents.get(member_id, _NOT_YET_ASSIGNED)

    def is_reconciled(self, member_id: str) -> bool:
        current = self.current(member_id)
        return current.state is MemberState.STABLE and current.epoch == self.assignment_epoch

    def check_member(self, member_id: str, instance_id: str | None) -> MemberMetadata:
        """The member; ApiError where the id is unknown or fenced."""
        return find_member(self.group_id, self.members, self.static_ids, member_id, instance_id)

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int | None
    ) -> frozenset[TopicIdPartition] | None:
        """The partitions that the member may commit, or None if it may commit all; ApiError if it may commit nothing.

        A member whose epoch has just risen may have sent a commit with the old one. It is valid for the partitions that the
        member already had in that epoch (KIP-1251): for others, another member may have committed in between. The version is
        None for offsets that a transaction commits.
        """
        if epoch < 0 and self.is_empty:
            return None
        if version is None and epoch < 0 and not member_id and instance_id is None:
            # Old producers send no member id (KIP-447).
            return None
        member = self.check_member(member_id, None)
        if version is not None and version < FIRST_COMMIT_VERSION_WITH_EPOCHS and member.classic is None:
            raise ApiError(
                ErrorCode.unsupported_version,
                f"A member of the consumer protocol needs OffsetCommit {FIRST_COMMIT_VERSION_WITH_EPOCHS} or later.",
            )
        current = self.current(member_id)
        if epoch == current.epoch:
            return None
        if epoch > current.epoch:
            raise _stale_epoch(member, f"The epoch {epoch} is newer than the member's epoch {current.epoch}.")
        return frozenset(
            (topic_id, number)
            for partitions in (current.assigned, current.revoking)
            for topic_id, epochs in partitions.items()
            for number, since_epoch in epochs.items()
            if since_epoch <= epoch
        )

    def validate_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """ApiError unless the member exists in this epoch. A request without a member comes from an administrator."""
        if not member_id and epoch < 0:
            return
        member = self.check_member(member_id or "", None)
        current_epoch = self.current(member_id or "").epoch
        if epoch != current_epoch:
            raise _stale_epoch(member, f"The epoch {epoch} is not the member's epoch {current_epoch}.")

    def set_member(self, member_id: str, member: MemberMetadata | None) -> None:
        former = self.members.pop(member_id, None)
        if former is not None and former.instance_id and self.static_ids.get(former.instance_id) == member_id:
            del self.static_ids[former.instance_id]
        super().set_member(member_id, member)
        if member is not None and member.instance_id is not None:
            self.static_ids[member.instance_id] = member_id

    def set_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        former = self.currents.pop(member_id, None)
        for partition in former.held() if former is not None else ():
            if self.owners.get(partition) == member_id:
                del self.owners[partition]
        super().set_current(member_id, current)
        for partition in current.held() if current is not None else ():
            self.owners[partition] = member_id

    def set_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        put(self.regexes, regex, resolved)

    def other_keys(self) -> list[bytes]:
        return [encode_key(REGEX_KEY, self.group_id, regex) for regex in self.regexes]


def _stale_epoch(member: MemberMetadata, message: str) -> ApiError:
    is_classic = member.classic is not None
    return ApiError(ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch, message)
