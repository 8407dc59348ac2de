"""Changes to groups: moving their offsets, deleting them, and altering their settings."""

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as CommittedPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kio.schema.alter_share_group_offsets.v0.request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_share_group_offsets.v0.request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from catchment.cli.failure import CommandError
from catchment.cli.group.offsets import SHARE, Cluster, Listed, positions
from catchment.cli.requests import GROUP, Coordinator, Requests, refused
from catchment.cli.wire import outcome
from catchment.client.topic_metadata import TopicPartition


class Move(NamedTuple):
    topic: str
    partition: int
    current: int | None
    target: int
    note: str = ""


def parse_topics(texts: Sequence[str]) -> dict[str, list[int] | None]:
    """`topic` means all its partitions, `topic:0,2` these."""
    found: dict[str, list[int] | None] = {}
    for text in texts:
        topic, separator, numbers = text.partition(":")
        if not separator:
            found[topic] = None
            continue
        parts = numbers.split(",")
        if not topic or not all(part.strip().isdecimal() for part in parts):
            raise ValueError(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION…")
        found[topic] = sorted({int(part) for part in parts})
    return found


def plan(
    topic_partitions: Sequence[TopicPartition],
    current: Mapping[TopicPartition, int],
    targets: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[Move]:
    """Where each partition goes: to its target, but never outside the log, and a note says where the target was outside."""
    moves = []
    for topic_partition in topic_partitions:
        wanted = targets[topic_partition]
        kept = min(max(wanted, starts[topic_partition]), ends[topic_partition])
        note = ""
        if wanted < kept:
            note = f"{wanted} is before the start of the log"
        elif wanted > kept:
            note = f"{wanted} is beyond the end of the log"
        moves.append(Move(*topic_partition, current.get(topic_partition), kept, note))
    return moves


def to_csv(moves: Sequence[Move]) -> str:
    """The plan in the form that `kafka-consumer-groups --export` writes for one group."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((move.topic, move.partition, move.target) for move in moves)
    return text.getvalue()


def read_csv(path: Path, group: str) -> dict[TopicPartition, int]:
    """A plan from a file: topic,partition,offset, or the same with the group before it."""
    try:
        lines = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CommandError(f"cannot read the plan in {path}: {error}") from error
    found: dict[TopicPartition, int] = {}
    for number, fields in enumerate(lines, 1):
        if not fields:
            continue
        cells = [field.strip() for field in fields]
        if len(cells) == 4:
            if cells[0] != group:
                continue
            cells = cells[1:]
        if len(cells) != 3 or not cells[0] or not all(cell.isdecimal() for cell in cells[1:]):
            raise CommandError(
                f"line {number} of {path} is not topic,partition,offset: {','.join(fields)}",
                "`catchment group reset … --csv` writes such a file.",
            )
        found[cells[0], int(cells[1])] = int(cells[2])
    if not found:
        raise CommandError(f"the plan in {path} has no line for group {group}")
    return found


NEW = ""
"""The state of a group that does not exist yet: setting its offsets creates it."""

_MOVABLE = frozenset({NEW, "Empty", "Dead"})
_STOP_FIRST = "Stop its members first; `catchment group describe` shows who they are."
_ADVICE: Mapping[ErrorCode, str] = {
    ErrorCode.non_empty_group: _STOP_FIRST,
    ErrorCode.group_subscribed_to_topic: _STOP_FIRST,
}


class GroupRefused(CommandError):
    """A group cannot be changed; the others are still processed."""


def require_empty(group: Listed) -> None:
    """Reject a group with members: they would continue from their own positions, and commit those."""
    if group.state not in _MOVABLE:
        raise CommandError(f"group {group.group} is {group.state.lower()}: it has members", _STOP_FIRST)


def move_group(cluster: Cluster, group: Listed, moves: Sequence[Move]) -> None:
    if group.kind == SHARE:
        _move_share_group(cluster.requests, group.group, moves)
        return
    wanted = ConsumerGroupTopicPartitions(
        group.group, [CommittedPartition(move.topic, move.partition, move.target) for move in moves]
    )
    futures = cluster.admin.alter_consumer_group_offsets([wanted], request_timeout=cluster.timeout_s)
    done = outcome(futures[group.group], f"cannot move group {group.group}")
    for committed in done.topic_partitions:
        if committed.error is not None:
            raise CommandError(f"cannot move {committed.topic}-{committed.partition}: {committed.error.str()}")


def _move_share_group(requests: Requests, group: str, moves: Sequence[Move]) -> None:
    topics = tuple(
        AlterShareGroupOffsetsRequestTopic(
            topic_name=TopicName(topic),
            partitions=tuple(
                AlterShareGroupOffsetsRequestPartition(
                    partition_index=i32(move.partition), start_offset=i64(move.target)
                )
                for move in of_topic
            ),
        )
        for topic, of_topic in groupby(sorted(moves), key=lambda move: move.topic)
    )
    request = AlterShareGroupOffsetsRequest(group_id=GroupId(group), topics=topics)
    answer = requests.ask(request, to=Coordinator(group, GROUP))
    _check(answer.error_code, answer.error_message, f"cannot move share group {group}")
    for topic in answer.responses:
        for partition in topic.partitions:
            topic_partition = f"{topic.topic_name}-{partition.partition_index}"
            _check(
                partition.error_code, partition.error_message, f"cannot move {topic_partition} of share group {group}"
            )


def delete_group(requests: Requests, group: Listed) -> None:
    request = DeleteGroupsRequest(groups_names=(GroupId(group.group),))
    (result,) = requests.ask(request, to=Coordinator(group.group, GROUP)).results
    _check(result.error_code, None, f"cannot delete group {group.group}")


def delete_topic_offsets(cluster: Cluster, group: Listed, topic: str) -> None:
    subject = f"cannot delete the position of group {group.group} in topic {topic}"
    numbers = [number for name, number in positions(cluster, group) if name == topic]
    if not numbers:
        raise GroupRefused(f"group {group.group} has no position in topic {topic}", "`catchment group lag` shows all.")
    target = Coordinator(group.group, GROUP)
    if group.kind == SHARE:
        wanted = DeleteShareGroupOffsetsRequestTopic(topic_name=TopicName(topic))
        asked = DeleteShareGroupOffsetsRequest(group_id=GroupId(group.group), topics=(wanted,))
        shared = cluster.requests.ask(asked, to=target)
        _check(shared.error_code, shared.error_message, subject)
        for answered in shared.responses:
            _check(answered.error_code, answered.error_message, subject)
        return
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=i32(number)) for number in numbers)
    request = OffsetDeleteRequest(
        group_id=GroupId(group.group), topics=(OffsetDeleteRequestTopic(name=TopicName(topic), partitions=partitions),)
    )
    answer = cluster.requests.ask(request, to=target)
    _check(answer.error_code, None, subject)
    for answered in answer.topics:
        for partition in answered.partitions:
            _check(partition.error_code, None, subject)


def alter_group(cluster: Cluster, group: str, values: Mapping[str, str], unset: Sequence[str]) -> None:
    operations = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in values.items()
    ] + [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in unset]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=operations)
    futures = cluster.admin.incremental_alter_configs([resource], request_timeout=cluster.timeout_s)
    outcome(futures[resource], f"cannot alter group {group}")


def _check(code: ErrorCode, message: str | None, subject: str) -> None:
    if code is not ErrorCode.none:
        error = refused(subject, code, message)
        raise GroupRefused(error.message, _ADVICE.get(code))
