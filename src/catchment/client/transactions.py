"""The requests of a transaction to its coordinator. One process may begin a transaction and another end it by its handle.

There are two protocols. In the first, a producer adds each partition at the coordinator before it writes there. In the second
(KIP-890) a write adds the partition, and every end of a transaction increments the epoch, so that no late write gets into the
next one. The second is used if the cluster has finalized `transaction.version` 2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32, i32Timedelta, i64

from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, raise_for
from catchment.client.network.brokers import GROUP, TRANSACTION, Coordinator, Target
from catchment.client.topic_metadata import TopicPartition

FEATURE: Final = "transaction.version"
SECOND_PROTOCOL: Final = 2
NEWEST_PRODUCE_OF_FIRST: Final = 11

_NEWEST_ADD_PARTITIONS: Final = 3
"""Later versions are for brokers."""
_NEWEST_END_OF_FIRST: Final = 4
_NEWEST_OFFSET_COMMIT_OF_FIRST: Final = 4


class TransactionHandle(NamedTuple):
    """What is needed to end a transaction. It may be stored, and used by another process."""

    transactional_id: str
    producer_id: int
    epoch: int


def end_transaction(cluster: Cluster, handle: TransactionHandle, commit: bool) -> TransactionHandle:
    """Commit or abort what was written with a handle. The same call may be repeated.

    The returned handle is for the producer's next transaction. A BrokerError means that the transaction has ended in another
    way: PRODUCER_FENCED or INVALID_PRODUCER_EPOCH if a later producer has taken over the transactional id, INVALID_TXN_STATE if
    it was ended the other way or nothing was written, and one of the three after its timeout.
    """
    verb = "commit" if commit else "abort"
    response = _settle(
        cluster,
        _end_request(handle, commit),
        Coordinator(handle.transactional_id, TRANSACTION),
        f"cannot {verb} the transaction of {handle.transactional_id}",
        lambda answered: [answered.error_code],
        _newest_end(cluster),
    )
    if response.producer_id < 0:
        return handle
    return TransactionHandle(handle.transactional_id, response.producer_id, response.producer_epoch)


def end_transactions(cluster: Cluster, handles: Sequence[TransactionHandle], commit: bool) -> list[ErrorCode]:
    """End many transactions at once: for each handle, none or the code that `end_transaction` would raise."""
    requests = [(_end_request(one, commit), Coordinator(one.transactional_id, TRANSACTION)) for one in handles]
    codes: list[ErrorCode] = []
    for handle, response in zip(
        handles, cluster.ask_together(requests, newest_version=_newest_end(cluster)), strict=True
    ):
        code = None if response is None else response.error_code
        if code is not ErrorCode.none:
            # The error may be retriable; if it is not, `end_transaction` gets the same response.
            code = _end_alone(cluster, handle, commit)
        codes.append(code)
    return codes


def _end_alone(cluster: Cluster, handle: TransactionHandle, commit: bool) -> ErrorCode:
    try:
        end_transaction(cluster, handle, commit)
    except BrokerError as error:
        return error.code
    return ErrorCode.none


def _end_request(handle: TransactionHandle, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=TransactionalId(handle.transactional_id),
        producer_id=ProducerId(handle.producer_id),
        producer_epoch=i16(handle.epoch),
        committed=commit,
    )


def _newest_end(cluster: Cluster) -> int | None:
    return None if cluster.feature(FEATURE) >= SECOND_PROTOCOL else _NEWEST_END_OF_FIRST


class Transactions:
    """The coordinator of one transactional id, for its producer."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinator = Coordinator(transactional_id, TRANSACTION)
        self.names_partitions = cluster.feature(FEATURE) < SECOND_PROTOCOL
        """Whether the first protocol is used, in which partitions are added at the coordinator."""

    def init_producer_id(self, known: TransactionHandle | None = None) -> TransactionHandle:
        """Take over the transactional id: an open transaction is aborted, and earlier producers are fenced.

        With the current handle, only the epoch is incremented, and a producer that was fenced itself gets an error.
        """
        request = InitProducerIdRequest(
            transactional_id=TransactionalId(self._transactional_id),
            transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=self._timeout_ms)),
            producer_id=ProducerId(-1 if known is None else known.producer_id),
            producer_epoch=i16(-1 if known is None else known.epoch),
        )
        subject = f"cannot begin transactions as {self._transactional_id}"
        response = _settle(self._cluster, request, self._coordinator, subject, lambda answered: [answered.error_code])
        return TransactionHandle(self._transactional_id, response.producer_id, response.producer_epoch)

    def add_partitions(self, handle: TransactionHandle, topic_partitions: Iterable[TopicPartition]) -> None:
        """Add partitions before they are written to."""
        topics = tuple(
            AddPartitionsToTxnTopic(name=TopicName(topic), partitions=tuple(i32(number) for number in numbers))
            for topic, numbers in _by_topic(topic_partitions).items()
        )
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=TransactionalId(self._transactional_id),
            producer_id=ProducerId(handle.producer_id),
            producer_epoch=i16(handle.epoch),
            topics=topics,
        )
        _settle(
            self._cluster,
            AddPartitionsToTxnRequest(transactions=(transaction,)),
            self._coordinator,
            f"cannot add partitions to the transaction of {self._transactional_id}",
            lambda answered: [
                partition.partition_error_code
                for result in answered.results_by_transaction
                for topic in result.topic_results
                for partition in topic.results_by_partition
            ],
            _NEWEST_ADD_PARTITIONS,
        )

    def send_offsets(self, handle: TransactionHandle, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group when the transaction commits."""
        subject = f"cannot add offsets of group {group} to the transaction of {self._transactional_id}"
        if self.names_partitions:
            added = AddOffsetsToTxnRequest(
                transactional_id=TransactionalId(self._transactional_id),
                producer_id=ProducerId(handle.producer_id),
                producer_epoch=i16(handle.epoch),
                group_id=GroupId(group),
            )
            _settle(self._cluster, added, self._coordinator, subject, lambda answered: [answered.error_code])
        _settle(
            self._cluster,
            _offset_commit(handle, group, positions),
            Coordinator(group, GROUP),
            subject,
            lambda answered: [partition.error_code for topic in answered.topics for partition in topic.partitions],
            _NEWEST_OFFSET_COMMIT_OF_FIRST if self.names_partitions else None,
        )


def _offset_commit(
    handle: TransactionHandle, group: str, positions: Mapping[TopicPartition, int]
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=TransactionalId(handle.transactional_id),
        group_id=GroupId(group),
        producer_id=ProducerId(handle.producer_id),
        producer_epoch=i16(handle.epoch),
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                name=TopicName(topic),
                partitions=tuple(
                    TxnOffsetCommitRequestPartition(
                        partition_index=i32(number),
                        committed_offset=i64(positions[topic, number]),
                        committed_metadata="",
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in _by_topic(positions).items()
        ),
    )


def _by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in topic_partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def _settle(
    cluster: Cluster,
    request: Any,
    to: Target,
    subject: str,
    codes_of: Callable[[Any], Collection[ErrorCode]],
    newest_version: int | None = None,
) -> Any:
    """Repeat the request until the response has no retriable error, such as that the previous transaction has not ended."""

    def error_of(response: Any) -> ErrorCode:
        return _worst(codes_of(response))

    response = cluster.ask(request, to=to, error_of=error_of, newest_version=newest_version)
    raise_for(error_of(response), subject)
    return response


def _worst(codes: Collection[ErrorCode]) -> ErrorCode:
    """The code of the cause: if one partition is rejected, the others only have the code that they were not tried."""
    errors = [code for code in codes if code is not ErrorCode.none]
    reasons = [code for code in errors if code is not ErrorCode.operation_not_attempted]
    return next(iter(reasons or errors), ErrorCode.none)
