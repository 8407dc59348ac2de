"""The positions of groups: the offsets that they have committed, and the ends of the partitions.

Consumer groups commit offsets; a share group has a start offset below which everything is done. Both are positions here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.types import GroupId

from catchment.cli.failure import CommandError
from catchment.cli.requests import GROUP, Coordinator, Requests, open_requests, refused
from catchment.cli.wire import open_admin, outcome, read_metadata
from catchment.client.topic_metadata import TopicPartition

SHARE = "share"


class Cluster(NamedTuple):
    """Two clients of a cluster: confluent-kafka, and single requests for APIs that it does not offer."""

    admin: AdminClient
    requests: Requests
    timeout_s: float


@contextmanager
def open_cluster(bootstrap_servers: str, settings: Mapping[str, str], timeout_s: float) -> Iterator[Cluster]:
    admin = open_admin(bootstrap_servers, settings)
    with open_requests(bootstrap_servers, settings, timeout_s) as requests:
        yield Cluster(admin, requests, timeout_s)


class Listed(NamedTuple):
    group: str
    kind: str
    """`classic`, `consumer` or `share`."""
    protocol: str
    state: str


def list_groups(requests: Requests) -> list[Listed]:
    """Every group of every broker, by name."""
    found: list[Listed] = []
    for broker_id in requests.broker_ids():
        answer = requests.ask(ListGroupsRequest(states_filter=(), types_filter=()), to=broker_id)
        if answer.error_code is not ErrorCode.none:
            raise refused(f"cannot list the groups of broker {broker_id}", answer.error_code, None)
        found += [
            # Brokers before 3.8 report no type: all their groups are classic.
            Listed(one.group_id, (one.group_type or "classic").lower(), one.protocol_type, one.group_state)
            for one in answer.groups
        ]
    return sorted(found)


def require_groups(requests: Requests, names: Iterable[str]) -> list[Listed]:
    """These groups, each of which must exist."""
    known = {listed.group: listed for listed in list_groups(requests)}
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise CommandError(f"there is no group {name}", "`catchment group list` shows the existing ones.")
    return [known[name] for name in wanted]


class Position(NamedTuple):
    offset: int
    lag: int | None = None
    """As the coordinator computes it: a share group may have acknowledged records beyond its start offset."""


def positions(cluster: Cluster, group: Listed) -> dict[TopicPartition, Position]:
    """The group's position in each partition that it has one in."""
    if group.kind == SHARE:
        return _share_positions(cluster.requests, group.group)
    asked = [ConsumerGroupTopicPartitions(group.group)]
    futures = cluster.admin.list_consumer_group_offsets(asked, request_timeout=cluster.timeout_s)
    found = outcome(futures[group.group], f"cannot read the offsets of group {group.group}")
    return {(one.topic, one.partition): Position(one.offset) for one in found.topic_partitions if one.offset >= 0}


def _share_positions(requests: Requests, group: str) -> dict[TopicPartition, Position]:
    request = DescribeShareGroupOffsetsRequest(
        groups=(DescribeShareGroupOffsetsRequestGroup(group_id=GroupId(group), topics=None),)
    )
    (answer,) = requests.ask(request, to=Coordinator(group, GROUP)).groups
    if answer.error_code is not ErrorCode.none:
        raise refused(f"cannot read the offsets of share group {group}", answer.error_code, answer.error_message)
    return {
        (topic.topic_name, one.partition_index): Position(one.start_offset, one.lag if one.lag >= 0 else None)
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code is ErrorCode.none and one.start_offset >= 0
    }


def offsets_at(
    cluster: Cluster, topic_partitions: Sequence[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    """The offset that the specification finds in each partition, -1 where it finds none."""
    if not topic_partitions:
        return {}
    wanted = {ConfluentTopicPartition(*topic_partition): spec for topic_partition in topic_partitions}
    futures = cluster.admin.list_offsets(
        wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=cluster.timeout_s
    )
    return {
        (topic_partition.topic, topic_partition.partition): outcome(
            future, f"cannot read offsets of {topic_partition.topic}-{topic_partition.partition}"
        ).offset
        for topic_partition, future in futures.items()
    }


def ends_of(cluster: Cluster, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The end offsets of the partitions that still exist."""
    topics = read_metadata(cluster.admin, cluster.timeout_s).topics
    there = [
        (topic, number)
        for topic, number in sorted(topic_partitions)
        if topic in topics and number in topics[topic].partitions
    ]
    return offsets_at(cluster, there, OffsetSpec.latest())


def lag_rows(
    groups: Iterable[tuple[Listed, Mapping[TopicPartition, Position]]], ends: Mapping[TopicPartition, int]
) -> list[dict[str, Any]]:
    """For each position of each group, the end and the lag; both None if the partition no longer exists."""
    return [
        {
            "group": listed.group,
            "topic": topic_partition[0],
            "partition": topic_partition[1],
            "position": position.offset,
            "end": ends.get(topic_partition),
            "lag": _lag(position, ends.get(topic_partition)),
        }
        for listed, found in groups
        for topic_partition, position in sorted(found.items())
    ]


def _lag(position: Position, end: int | None) -> int | None:
    if end is None:
        return None
    return max(end - position.offset, 0) if position.lag is None else position.lag
