"""A transactional producer of either protocol, request by request, so that tests can send what no real client would."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, NamedTuple

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64
from tests.broker.handlers.log_requests import batch, milliseconds
from tests.broker.handlers.wire import Wire

from catchment.protocol.adapters.produce import TopicProduceData

_RETRIABLE = (
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
_SENT_AGAIN = (ErrorCode.not_enough_replicas, ErrorCode.concurrent_transactions)
_TRANSACTIONS = 1


class Versions(NamedTuple):
    """The versions that a client of one transaction protocol speaks."""

    produce: int
    commit_offsets: int
    end: int

    @property
    def adds(self) -> bool:
        return self.produce < 12


V1 = Versions(produce=11, commit_offsets=4, end=4)
V2 = Versions(produce=12, commit_offsets=5, end=5)


class TransactionalProducer:
    def __init__(self, wire: Wire, versions: Versions = V2, transactional_id: str = "tx") -> None:
        self.wire = wire
        self.versions = versions
        self.transactional_id = TransactionalId(transactional_id)
        self.producer_id = ProducerId(-1)
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        self.added: set[tuple[str, int]] = set()

    def begin_life(self) -> None:
        """Find the coordinator and take over the transactional id."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout=i32Timedelta.parse(timedelta(minutes=1)),
        )
        find = FindCoordinatorRequest(key_type=i8(_TRANSACTIONS), coordinator_keys=(self.transactional_id,))
        while self.wire.ask(find, 6).coordinators[0].error_code in _RETRIABLE:
            pass
        while (answer := self.wire.ask(request, 5)).error_code in _RETRIABLE:
            pass
        assert answer.error_code is ErrorCode.none
        self._become(answer)

    def add(self, topic: str, partition: int = 0) -> ErrorCode:
        """Make a partition part of the transaction, as clients of the first protocol do before they write."""
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=i16(self.epoch),
            topics=(AddPartitionsToTxnTopic(name=TopicName(topic), partitions=(i32(partition),)),),
        )
        while True:
            answer = self.wire.ask(AddPartitionsToTxnRequest(transactions=(transaction,)), 3)
            code: ErrorCode = (
                answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
            )
            if code not in _RETRIABLE:
                return code

    def add_group(self, group: str = "g") -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=i16(self.epoch),
            group_id=GroupId(group),
        )
        while (answer := self.wire.ask(request, 4)).error_code in _RETRIABLE:
            pass
        code: ErrorCode = answer.error_code
        return code

    def write(self, topic: str, *values: bytes, partition: int = 0) -> ErrorCode:
        """Write as a real client would, which sends a batch again when it is asked to; the last answer."""
        if self.versions.adds and (topic, partition) not in self.added:
            assert self.add(topic, partition) is ErrorCode.none
            self.added.add((topic, partition))
        sequence = self.sequences.get((topic, partition), 0)
        while (code := self.append(topic, *values, partition=partition, sequence=sequence)) in _SENT_AGAIN:
            pass
        if code is ErrorCode.none:
            self.sequences[topic, partition] = sequence + len(values)
        return code

    def append(
        self, topic: str, *values: bytes, partition: int = 0, sequence: int = 0, epoch: int | None = None
    ) -> ErrorCode:
        """Send one batch, whatever came of others."""
        request = self.produce_request(topic, *values, partition=partition, sequence=sequence, epoch=epoch)
        code: ErrorCode = self.wire.ask(request, self.versions.produce).responses[0].partition_responses[0].error_code
        return code

    def produce_request(
        self, topic: str, *values: bytes, partition: int = 0, sequence: int = 0, epoch: int | None = None
    ) -> ProduceRequest:
        records = batch(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            is_transactional=True,
            # Markers bear the broker's time; a record of another age would make it begin a new segment.
            base_timestamp_ms=int(time.time() * 1000),
        )
        data = PartitionProduceData(index=i32(partition), records=Records(records))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=i16(-1),
            timeout=milliseconds(30_000),
            topic_data=(TopicProduceData(topic_id=None, name=TopicName(topic), partition_data=(data,)),),
        )

    def commit_offset(
        self,
        offset: int,
        *,
        topic: str = "a",
        partition: int = 0,
        group: str = "g",
        generation: int = -1,
        member_id: str = "",
        epoch: int | None = None,
    ) -> ErrorCode:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GroupId(group),
            producer_id=self.producer_id,
            producer_epoch=i16(self.epoch if epoch is None else epoch),
            generation_id=i32(generation),
            member_id=member_id,
            topics=(
                TxnOffsetCommitRequestTopic(
                    name=TopicName(topic),
                    partitions=(
                        TxnOffsetCommitRequestPartition(
                            partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=""
                        ),
                    ),
                ),
            ),
        )
        while True:
            code: ErrorCode = self.wire.ask(request, self.versions.commit_offsets).topics[0].partitions[0].error_code
            if code not in _RETRIABLE:
                return code

    def end(self, *, is_commit: bool) -> ErrorCode:
        """End the transaction; with the second protocol, go on with the epoch that the answer gives."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=i16(self.epoch),
            committed=is_commit,
        )
        while (answer := self.wire.ask(request, self.versions.end)).error_code in _RETRIABLE:
            pass
        code: ErrorCode = answer.error_code
        if code is ErrorCode.none:
            self.added.clear()
            if not self.versions.adds:
                self._become(answer)
        return code

    def _become(self, answer: Any) -> None:
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
