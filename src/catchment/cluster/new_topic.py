"""Requests for new topics and partitions: their names, counts and assignments, checked as Kafka does."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage, PartitionImage, TopicImage
from catchment.cluster.placement import Assignment, check_assignments, consecutive, place_replicas
from catchment.protocol.errors import ApiError

MAX_NEW_PARTITIONS = 10_000
"""As in Kafka: the work that one request causes is bounded."""
MAX_NAME_LENGTH = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partition_count: int = 1
    replication_factor: int = 1
    assignments: Mapping[int, Assignment] | None = None
    """The replicas of each partition, preferred leader first, instead of the two numbers above."""
    settings: Mapping[str, str] = field(default_factory=dict)


def plan_assignments(new: NewTopic, image: MetadataImage, *, start: int) -> list[Assignment]:
    if new.assignments:
        _check_bound(len(new.assignments))
        assignments = consecutive(new.assignments)
        check_assignments(assignments, image.brokers)
        return assignments
    if new.partition_count < 1:
        raise ApiError(
            ErrorCode.invalid_partitions, "Number of partitions must be larger than 0, or -1 to use the default value."
        )
    if new.replication_factor < 1:
        raise ApiError(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    _check_bound(new.partition_count)
    return place_replicas(image.brokers, new.partition_count, new.replication_factor, start=start)


def plan_more_assignments(
    topic: TopicImage, count: int, assignments: Sequence[Assignment] | None, image: MetadataImage, *, start: int
) -> list[Assignment]:
    """The replicas of the partitions that the topic lacks to have `count`."""
    existing = len(topic.partitions)
    if count == existing:
        raise ApiError(ErrorCode.invalid_partitions, f"Topic already has {existing} partition(s).")
    if count < existing:
        raise ApiError(
            ErrorCode.invalid_partitions,
            f"The topic {topic.name} currently has {existing} partition(s); {count} would not be an increase.",
        )
    additional = count - existing
    _check_bound(additional)
    replication_factor = len(topic.partitions[0].replicas)
    if assignments is None:
        return place_replicas(
            image.brokers, additional, max(replication_factor, 1), start=start, first_partition=existing
        )
    if len(assignments) != additional:
        raise ApiError(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {additional} additional partition(s), but {len(assignments)} assignment(s) were specified.",
        )
    check_assignments(assignments, image.brokers, replication_factor)
    return list(assignments)


def fresh_partitions(assignments: Sequence[Assignment], first_partition: int = 0) -> tuple[PartitionImage, ...]:
    """New partitions, led by their preferred replica, with every replica in sync: there are no records to lag behind."""
    return tuple(
        PartitionImage(first_partition + index, leader=replicas[0], leader_epoch=0, replicas=replicas, isr=replicas)
        for index, replicas in enumerate(assignments)
    )


def _check_bound(new_partitions: int) -> None:
    if new_partitions > MAX_NEW_PARTITIONS:
        raise ApiError(
            ErrorCode.policy_violation,
            f"Excessively large number of partitions per request: {new_partitions}, at most {MAX_NEW_PARTITIONS} are allowed.",
        )


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless a topic may have this name, which is also that of a directory and a metric."""
    reason = _objection(name)
    if reason is not None:
        raise ApiError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {reason}")


def _objection(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' and '..' are not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name[:MAX_NAME_LENGTH]}…' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL_NAME.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Equal for names that are the same in metrics, where a period becomes an underscore."""
    return name.replace(".", "_")
