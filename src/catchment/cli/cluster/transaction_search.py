"""Transactions as coordinators and partition leaders report them, and the marker that aborts one."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from catchment.cli.failure import CommandError
from catchment.cli.requests import TRANSACTION, Coordinator, Requests, refused
from catchment.cli.wire import raise_unknown_topic
from catchment.client.topic_metadata import TopicPartition, metadata_request

_NOT_OPEN = -1
_ANY_AGE = -1
_NO_LEADER = -1
_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
_SUCCESSOR_TIMEOUT = timedelta(minutes=1)


def list_transactions(requests: Requests, states: Sequence[str], older_than_s: float | None) -> list[dict[str, Any]]:
    """The transactional ids that each broker coordinates."""
    request = ListTransactionsRequest(
        state_filters=tuple(states),
        producer_id_filters=(),
        duration_filter=i64(_ANY_AGE if older_than_s is None else int(older_than_s * 1000)),
        transactional_id_pattern=None,
    )
    found: list[dict[str, Any]] = []
    for broker_id in requests.broker_ids():
        answer = requests.ask(request, to=broker_id)
        if answer.error_code is not ErrorCode.none:
            raise refused(f"cannot list the transactions of broker {broker_id}", answer.error_code, None)
        if answer.unknown_state_filters:
            raise CommandError(
                f"there is no transaction state {answer.unknown_state_filters[0]}",
                "The states are Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort.",
            )
        found += [
            {
                "transactional_id": one.transactional_id,
                "coordinator": broker_id,
                "producer_id": one.producer_id,
                "state": one.transaction_state,
            }
            for one in answer.transaction_states
        ]
    return sorted(found, key=lambda one: str(one["transactional_id"]))


def describe_transactions(requests: Requests, ids: Sequence[str], now_s: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for transactional_id in dict.fromkeys(ids):
        request = DescribeTransactionsRequest(transactional_ids=(TransactionalId(transactional_id),))
        (one,) = requests.ask(request, to=Coordinator(transactional_id, TRANSACTION)).transaction_states
        if one.error_code is not ErrorCode.none:
            raise _unknown(transactional_id, one.error_code)
        started = one.transaction_start_time if one.transaction_state in _OPEN_STATES else None
        found.append(
            {
                "transactional_id": transactional_id,
                "state": one.transaction_state,
                "producer_id": one.producer_id,
                "epoch": one.producer_epoch,
                "timeout_ms": int(one.transaction_timeout.total_seconds() * 1000),
                "open_for_s": None if started is None else round(now_s - started.timestamp(), 1),
                "partitions": [f"{topic.topic}:{number}" for topic in one.topics for number in topic.partitions],
            }
        )
    return found


def _unknown(transactional_id: str, code: ErrorCode) -> CommandError:
    if code is ErrorCode.transactional_id_not_found:
        return CommandError(
            f"there is no transactional id {transactional_id}", "`catchment transaction list` shows the existing ones."
        )
    return refused(f"cannot describe transactional id {transactional_id}", code, None)


def producers_of(requests: Requests, topic: str, partition: int) -> list[dict[str, Any]]:
    """The producer states of the partition's leader."""
    topic_partition = (topic, partition)
    leaders = _leaders(requests, [topic])
    if topic_partition not in leaders:
        raise CommandError(f"topic {topic} has no partition {partition}", "`catchment topic describe` shows them.")
    if leaders[topic_partition] == _NO_LEADER:
        raise CommandError(f"{topic}-{partition} has no leader at the moment", "Start the brokers that have it.")
    return _producers(requests, leaders[topic_partition], [topic_partition])[topic_partition]


def _producers(
    requests: Requests, leader: int, topic_partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[dict[str, Any]]]:
    topics = tuple(
        TopicRequest(name=TopicName(topic), partition_indexes=tuple(i32(number) for _, number in of_topic))
        for topic, of_topic in groupby(sorted(topic_partitions), key=lambda topic_partition: topic_partition[0])
    )
    found: dict[TopicPartition, list[dict[str, Any]]] = {}
    for topic in requests.ask(DescribeProducersRequest(topics=topics), to=leader).topics:
        for partition in topic.partitions:
            topic_partition = (topic.name, partition.partition_index)
            if partition.error_code is not ErrorCode.none:
                subject = f"cannot read the producers of {topic_partition[0]}-{topic_partition[1]}"
                raise refused(subject, partition.error_code, partition.error_message)
            found[topic_partition] = [_producer(one) for one in partition.active_producers]
    return found


def _producer(one: Any) -> dict[str, Any]:
    return {
        "producer_id": one.producer_id,
        "epoch": one.producer_epoch,
        "coordinator_epoch": one.coordinator_epoch,
        "last_sequence": one.last_sequence,
        "last_timestamp_ms": one.last_timestamp,
        "start_offset": None if one.current_txn_start_offset == _NOT_OPEN else one.current_txn_start_offset,
    }


def hanging_transactions(requests: Requests, topics: list[str] | None, before_s: float) -> list[dict[str, Any]]:
    """Transactions that have been open in a partition since before that moment, and that no coordinator has.

    The coordinators are queried first: a transaction that begins between the two queries is too new to count.
    """
    known = _known_to_coordinators(requests, before_s)
    by_leader: dict[int, list[TopicPartition]] = {}
    for topic_partition, leader in _leaders(requests, topics).items():
        by_leader.setdefault(leader, []).append(topic_partition)
    by_leader.pop(_NO_LEADER, None)
    found = [
        {
            "topic": topic_partition[0],
            "partition": topic_partition[1],
            "producer_id": one["producer_id"],
            "epoch": one["epoch"],
            "start_offset": one["start_offset"],
        }
        for leader, topic_partitions in by_leader.items()
        for topic_partition, producers in _producers(requests, leader, topic_partitions).items()
        for one in producers
        if one["start_offset"] is not None
        and one["last_timestamp_ms"] < before_s * 1000
        and (one["producer_id"], *topic_partition) not in known
    ]
    return sorted(found, key=lambda one: (one["topic"], one["partition"], one["start_offset"]))


def _known_to_coordinators(requests: Requests, now_s: float) -> set[tuple[int, str, int]]:
    """Every producer's id with each partition that it has an open transaction in."""
    ids = [one["transactional_id"] for one in list_transactions(requests, _OPEN_STATES, None)]
    return {
        (described["producer_id"], topic, int(number))
        for described in describe_transactions(requests, ids, now_s)
        for topic, _, number in (topic_partition.rpartition(":") for topic_partition in described["partitions"])
    }


def abort_hanging(requests: Requests, topic: str, partition: int, start_offset: int) -> int:
    """Write the marker that the coordinator would write, on its behalf. Returns the id of the producer."""
    open_there = [one for one in producers_of(requests, topic, partition) if one["start_offset"] is not None]
    producer = next((one for one in open_there if one["start_offset"] == start_offset), None)
    if producer is None:
        starts = ", ".join(str(one["start_offset"]) for one in open_there) or "none"
        raise CommandError(
            f"no transaction begins at offset {start_offset} of {topic}-{partition} and is open",
            f"Open ones begin at: {starts}.",
        )
    marker = WritableTxnMarker(
        producer_id=ProducerId(producer["producer_id"]),
        producer_epoch=i16(producer["epoch"]),
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=(i32(partition),)),),
        # The first transaction of a producer has no coordinator epoch yet.
        coordinator_epoch=i32(max(producer["coordinator_epoch"], 0)),
        transaction_version=i8(0),
    )
    leader = _leaders(requests, [topic])[topic, partition]
    (answer,) = requests.ask(WriteTxnMarkersRequest(markers=(marker,)), to=leader).markers
    for answered in answer.topics:
        for one in answered.partitions:
            if one.error_code is not ErrorCode.none:
                raise refused(f"cannot abort the transaction in {topic}-{partition}", one.error_code, None)
    return int(producer["producer_id"])


def abort_of_id(requests: Requests, transactional_id: str) -> None:
    """Send InitProducerId for the transactional id: that aborts its transaction and fences its producer.

    While the coordinator is still aborting, the request is repeated.
    """
    describe_transactions(requests, [transactional_id], 0)
    request = InitProducerIdRequest(
        transactional_id=TransactionalId(transactional_id),
        transaction_timeout=i32Timedelta.parse(_SUCCESSOR_TIMEOUT),
        producer_id=ProducerId(-1),
        producer_epoch=i16(-1),
    )
    answer = requests.ask(request, to=Coordinator(transactional_id, TRANSACTION))
    if answer.error_code is not ErrorCode.none:
        raise refused(f"cannot abort the transaction of {transactional_id}", answer.error_code, None)


def _leaders(requests: Requests, topics: Sequence[str] | None) -> dict[TopicPartition, int]:
    """The leader of every partition of these topics, or of all; -1 where there is none."""
    answer = requests.ask(metadata_request(topics))
    found: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        if topic.error_code is ErrorCode.unknown_topic_or_partition:
            raise_unknown_topic(topic.name)
        if topic.error_code is not ErrorCode.none:
            raise refused(f"topic {topic.name}", topic.error_code, None)
        for partition in topic.partitions:
            found[topic.name, partition.partition_index] = partition.leader_id
    return found
