"""The epochs, the target assignment and the current assignments of a share group, after its subscriptions and topics."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from uuid import UUID

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.assignors import simple
from catchment.coordination.assignors.assignor import MemberSpec
from catchment.coordination.groups.modern import NO_PARTITIONS, PartitionsByTopic
from catchment.coordination.groups.share.group import ShareAssignment, ShareGroup
from catchment.coordination.groups.share.records import Draft
from catchment.coordination.timers import Moment


def advance(draft: Draft, image: MetadataImage, *, has_new_topics: bool, now: Moment) -> None:
    """Begin a new group epoch if anything has changed, and compute its target assignment."""
    before = draft.group
    metadata_hash = before.metadata_hash
    if has_new_topics or before.checked_version != image.version:
        metadata_hash = topics_hash(before.topics, image)
    if has_new_topics or metadata_hash != before.metadata_hash or _is_target_behind(before, image):
        draft.put_epoch(before.epoch + 1, metadata_hash)
    if draft.group.epoch > draft.group.assignment_epoch:
        _compute_target(draft, image, now)


def next_assignment(
    group: ShareGroup, member_id: str, image: MetadataImage, *, has_new_topics: bool
) -> ShareAssignment:
    """The next assignment of the member: its target, restricted to the topics that it subscribes to."""
    current = group.current(member_id)
    if current.epoch != group.assignment_epoch:
        assigned = _subscribed(group.target(member_id), group.members[member_id].topics, image)
        return ShareAssignment(group.assignment_epoch, current.epoch, assigned)
    if has_new_topics:
        return current._replace(assigned=_subscribed(current.assigned, group.members[member_id].topics, image))
    return current


def readable(group: ShareGroup, image: MetadataImage) -> dict[UUID, frozenset[int]]:
    """The subscribed partitions that have share state."""
    partitions: dict[UUID, frozenset[int]] = {}
    for name in group.topics:
        topic = image.topics.get(name)
        initialized = None if topic is None else group.partitions.initialized.get(topic.id)
        if topic is not None and initialized is not None:
            partitions[topic.id] = initialized.partitions & frozenset(range(len(topic.partitions)))
    return partitions


def topics_hash(names: Iterable[str], image: MetadataImage) -> int:
    """A number that changes when one of the topics is created, is deleted or gets partitions."""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(names):
        topic = image.topics.get(name)
        if topic is not None:
            digest.update(topic.id.bytes + len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


def _is_target_behind(group: ShareGroup, image: MetadataImage) -> bool:
    """Whether there are readable partitions that no member has been assigned yet."""
    if group.partitions is group.checked_partitions:
        return False
    assigned_partitions = {
        (topic_id, number)
        for target in group.targets.values()
        for topic_id, numbers in target.items()
        for number in numbers
    }
    return any(
        (topic_id, number) not in assigned_partitions
        for topic_id, numbers in readable(group, image).items()
        for number in numbers
    )


def _compute_target(draft: Draft, image: MetadataImage, now: Moment) -> None:
    group = draft.group
    specs = {
        member_id: MemberSpec(
            None,
            member.rack_id,
            frozenset(image.topics[name].id for name in member.topics if name in image.topics),
            group.target(member_id),
        )
        for member_id, member in group.members.items()
    }
    for member_id, target in simple.assign_partitions(specs, readable(group, image)).items():
        if target != group.targets.get(member_id):
            draft.put_target(member_id, target)
    draft.put_target_epoch(draft.group.epoch, now.wall_ms)


def _subscribed(partitions: PartitionsByTopic, names: Iterable[str], image: MetadataImage) -> PartitionsByTopic:
    topic_ids = {image.topics[name].id for name in names if name in image.topics}
    kept = {topic_id: numbers for topic_id, numbers in partitions.items() if topic_id in topic_ids}
    return kept or NO_PARTITIONS
