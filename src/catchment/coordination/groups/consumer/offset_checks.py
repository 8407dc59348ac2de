"""Who may commit and fetch the offsets of a consumer group, and with which epoch.

A member whose epoch has just risen may have a commit under way that says the old one. It counts for the partitions that it
already had in that epoch (KIP-1251); for others somebody else may have committed in between.
"""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.coordination.groups.consumer.group import ConsumerGroup
from catchment.coordination.groups.consumer.members import MemberMetadata
from catchment.protocol.errors import ApiError

FIRST_WITH_EPOCHS = 9
"""The first version of OffsetCommit that members of the consumer protocol may use."""

Allowed = frozenset[tuple[UUID, int]]


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    version: int | None,
) -> Allowed | None:
    """The partitions that the member may commit, or None if it may commit all; ApiError if it may commit nothing.

    The version is None for offsets that a transaction commits.
    """
    if epoch < 0 and group.is_empty:
        return None
    is_transactional = version is None
    if is_transactional and epoch < 0 and not member_id and instance_id is None:
        # Old producers could not say for whom they commit (KIP-447).
        return None
    member = group.check_member(member_id, None)
    if version is not None and version < FIRST_WITH_EPOCHS and member.classic is None:
        raise ApiError(
            ErrorCode.unsupported_version,
            f"A member of the consumer protocol commits with version {FIRST_WITH_EPOCHS} or later.",
        )
    current = group.current(member_id)
    if epoch == current.epoch:
        return None
    if epoch > current.epoch:
        raise _stale(member, f"The epoch {epoch} is newer than the member's, which is {current.epoch}.")
    return frozenset(
        (topic_id, number)
        for partitions in (current.assigned, current.revoking)
        for topic_id, epochs in partitions.items()
        for number, since_epoch in epochs.items()
        if since_epoch <= epoch
    )


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """ApiError unless the member is one and up to date; whoever names none is an administrator."""
    if not member_id and epoch < 0:
        return
    member = group.check_member(member_id or "", None)
    known_epoch = group.current(member_id or "").epoch
    if epoch != known_epoch:
        raise _stale(member, f"The epoch {epoch} is not the member's, which is {known_epoch}.")


def _stale(member: MemberMetadata, message: str) -> ApiError:
    is_classic = member.classic is not None
    return ApiError(ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch, message)
