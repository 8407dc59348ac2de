"""Offsets: the first and last ones of partitions, and the committed ones of groups.

Offsets are committed as by a consumer without group management, so the group must have no members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.offset_commit.v10.request import OffsetCommitRequest, OffsetCommitRequestPartition
from kio.schema.offset_fetch.v10.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.types import BrokerId, GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from catchment.client.errors import BrokerError, TimedOut, Unreachable, raise_for
from catchment.client.network.brokers import GROUP, Coordinator
from catchment.client.network.deadline import Backoff
from catchment.client.topic_metadata import TopicPartition
from catchment.protocol.adapters.offset_commit import OffsetCommitRequestTopic
from catchment.protocol.adapters.offset_fetch import OffsetFetchRequestTopics

if TYPE_CHECKING:
    from catchment.client.cluster import Cluster

EARLIEST: Final = -2
LATEST: Final = -1
EARLIEST_LOCAL: Final = -4
"""The start of the part of a log that is on the disks of brokers; what is before it is in remote storage (KIP-405)."""

NOT_FOUND: Final = -1
"""The offset if no record has such a late timestamp."""

_NO_OFFSET: Final = -1
_NO_EPOCH: Final = -1
_NO_GENERATION: Final = -1
_CONSUMER: Final = BrokerId(-1)
_REMOTE_READ: Final = i32Timedelta.parse(timedelta(seconds=30))
# Errors that fresh metadata resolves.
_STALE_LEADER: Final = frozenset(
    {
        ErrorCode.fenced_leader_epoch,
        ErrorCode.kafka_storage_error,
        ErrorCode.leader_not_available,
        ErrorCode.network_exception,
        ErrorCode.not_leader_or_follower,
        ErrorCode.offset_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_or_partition,
    }
)

Result = TypeVar("Result")


class OffsetAt(NamedTuple):
    """The offset, or `NOT_FOUND`, and the record's timestamp, -1 if it was not requested."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class Position(NamedTuple):
    """The committed offset of a group for one partition: that of the next record to read."""

    offset: int
    leader_epoch: int = _NO_EPOCH
    metadata: str = ""


def list_offsets(
    cluster: Cluster, topic_partitions: Iterable[TopicPartition], when: int, read_committed: bool, backoff: Backoff
) -> dict[TopicPartition, OffsetAt]:
    """Ask every leader for its partitions, and the new leaders for those that were rejected."""
    found: dict[TopicPartition, OffsetAt] = {}
    wanted = list(dict.fromkeys(topic_partitions))
    left = wanted
    while left:
        refused: dict[TopicPartition, ErrorCode] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in left:
            by_leader.setdefault(cluster.leader(*topic_partition).broker_id, []).append(topic_partition)
        for broker_id, led in by_leader.items():
            _list_of_leader(cluster, broker_id, _list_request(cluster, led, when, read_committed), found, refused)
        left = list(refused)
        if left:
            _check_refused(refused, backoff)
            cluster.refresh(_by_topic(left))
    return {topic_partition: found[topic_partition] for topic_partition in wanted}


def _check_refused(refused: Mapping[TopicPartition, ErrorCode], backoff: Backoff) -> None:
    """Pause before the next attempt, or raise if the error is not retriable or there is no time left."""
    lasting = [topic_partition for topic_partition, code in refused.items() if code not in _STALE_LEADER]
    if lasting or not backoff.pause():
        topic, partition = topic_partition = (lasting or list(refused))[0]
        raise_for(refused[topic_partition], f"cannot list the offsets of {topic}-{partition}")


def _list_of_leader(
    cluster: Cluster,
    broker_id: int,
    request: ListOffsetsRequest,
    found: dict[TopicPartition, OffsetAt],
    refused: dict[TopicPartition, ErrorCode],
) -> None:
    try:
        topics = cluster.ask(request, to=broker_id, once=True).topics
    except (Unreachable, TimedOut):
        # There may be another leader by now.
        for topic in request.topics:
            refused |= {(topic.name, one.partition_index): ErrorCode.network_exception for one in topic.partitions}
        return
    for topic in topics:
        for one in topic.partitions:
            topic_partition = (topic.name, one.partition_index)
            if one.error_code is ErrorCode.none:
                found[topic_partition] = OffsetAt(one.offset, one.timestamp, one.leader_epoch)
            else:
                refused[topic_partition] = one.error_code


def _list_request(
    cluster: Cluster, topic_partitions: list[TopicPartition], when: int, read_committed: bool
) -> ListOffsetsRequest:
    topics = [
        ListOffsetsTopic(
            name=TopicName(topic),
            partitions=tuple(
                ListOffsetsPartition(
                    partition_index=i32(partition),
                    current_leader_epoch=i32(cluster.leader(topic, partition).epoch),
                    timestamp=i64(when),
                )
                for partition in partitions
            ),
        )
        for topic, partitions in _by_topic(topic_partitions).items()
    ]
    return ListOffsetsRequest(
        replica_id=_CONSUMER, isolation_level=i8(int(read_committed)), topics=tuple(topics), timeout=_REMOTE_READ
    )


def committed(
    cluster: Cluster, group: str, topic_partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Position]:
    """Waits for offsets that an open transaction is about to commit (KIP-447)."""
    wanted = _by_topic(topic_partitions)

    def attempt() -> dict[TopicPartition, Position]:
        topics = tuple(
            OffsetFetchRequestTopics(
                name=TopicName(topic),
                topic_id=cluster.topic_id(topic),
                partition_indexes=tuple(map(i32, partitions)),
            )
            for topic, partitions in wanted.items()
        )
        asked = OffsetFetchRequestGroup(group_id=GroupId(group), topics=topics)
        request = OffsetFetchRequest(groups=(asked,), require_stable=True)
        response = cluster.ask(request, to=Coordinator(group, GROUP), error_of=_fetch_error)
        raise_for(_fetch_error(response), f"cannot read the offsets of group {group}")
        names = {cluster.topic_id(topic): topic for topic in wanted}
        return {
            # Topics are named up to version 9, and have ids later.
            (topic.name or names[topic.topic_id], one.partition_index): Position(
                one.committed_offset, one.committed_leader_epoch, one.metadata or ""
            )
            for topic in response.groups[0].topics
            for one in topic.partitions
            if one.committed_offset != _NO_OFFSET
        }

    return _with_topic_ids(cluster, wanted, attempt) if wanted else {}


def commit(cluster: Cluster, group: str, positions: Mapping[TopicPartition, int | Position]) -> None:
    """Commit all of the positions, or raise the first error; other positions may have been committed then."""
    wanted = _by_topic(positions)

    def attempt() -> None:
        topics = tuple(
            OffsetCommitRequestTopic(
                name=TopicName(topic),
                topic_id=cluster.topic_id(topic),
                partitions=tuple(_commit_partition(number, positions[topic, number]) for number in partitions),
            )
            for topic, partitions in wanted.items()
        )
        request = OffsetCommitRequest(
            group_id=GroupId(group),
            generation_id_or_member_epoch=i32(_NO_GENERATION),
            member_id="",
            group_instance_id=None,
            topics=topics,
        )
        response = cluster.ask(request, to=Coordinator(group, GROUP), error_of=_commit_error)
        raise_for(_commit_error(response), f"cannot commit the offsets of group {group}")

    if wanted:
        _with_topic_ids(cluster, wanted, attempt)


def _commit_partition(partition: int, given: int | Position) -> OffsetCommitRequestPartition:
    position = Position(given) if isinstance(given, int) else given
    return OffsetCommitRequestPartition(
        partition_index=i32(partition),
        committed_offset=i64(position.offset),
        committed_leader_epoch=i32(position.leader_epoch),
        committed_metadata=position.metadata,
    )


def _fetch_error(response: Any) -> ErrorCode:
    (group,) = response.groups
    return _first_error([group.error_code, *(one.error_code for topic in group.topics for one in topic.partitions)])


def _commit_error(response: Any) -> ErrorCode:
    return _first_error(one.error_code for topic in response.topics for one in topic.partitions)


def _first_error(codes: Iterable[ErrorCode]) -> ErrorCode:
    return next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)


def _with_topic_ids(cluster: Cluster, topics: Iterable[str], attempt: Callable[[], Result]) -> Result:
    """Retry with new topic ids if a topic has been deleted and created again."""
    try:
        return attempt()
    except BrokerError as error:
        if error.code is not ErrorCode.unknown_topic_id:
            raise
    cluster.refresh(topics)
    return attempt()


def _by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(set(topic_partitions)):
        topics.setdefault(topic, []).append(partition)
    return topics
