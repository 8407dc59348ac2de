"""Single requests of transactional producers, brokers and admin clients, as no well-behaved client would send them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64
from tests.broker.handlers.wire import Wire
from tests.waiting import wait_until

from catchment.coordination.coordinator_shard import Producer
from catchment.protocol.adapters.describe_transactions import TransactionState

NO_PRODUCER = Producer(-1, -1)
_WAIT = (
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)

Outcome = tuple[ErrorCode, Producer]


class TransactionWire:
    """Requests about one transactional id."""

    def __init__(self, wire: Wire, transactional_id: str = "x") -> None:
        self.wire = wire
        self.transactional_id = TransactionalId(transactional_id)
        self._find()

    def init(self, producer: Producer = NO_PRODUCER, version: int = 5, *, timeout_ms: int = 60_000) -> Outcome:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms)),
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
        )
        answer = self.wire.ask(request, version)
        return answer.error_code, Producer(answer.producer_id, answer.producer_epoch)

    def init_until_answered(self, producer: Producer = NO_PRODUCER) -> Outcome:
        """As a client does, come again while the coordinator is busy with what was before."""

        def answer() -> Outcome | None:
            outcome = self.init(producer)
            return None if outcome[0] in _WAIT else outcome

        return wait_until(answer, "the coordinator stays busy")

    def begin(self) -> Producer:
        error, producer = self.init_until_answered()
        assert error is ErrorCode.none
        return producer

    def end(self, producer: Producer, version: int = 5, *, is_commit: bool = True) -> Outcome:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            committed=is_commit,
        )
        answer = self.wire.ask(request, version)
        return answer.error_code, Producer(answer.producer_id, answer.producer_epoch)

    def add(
        self,
        producer: Producer,
        topics: Mapping[str, Sequence[int]],
        version: int = 3,
        *,
        verify_only: bool = False,
    ) -> dict[tuple[str, int], ErrorCode]:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            verify_only=verify_only,
            topics=tuple(
                AddPartitionsToTxnTopic(name=TopicName(name), partitions=tuple(map(i32, numbers)))
                for name, numbers in topics.items()
            ),
        )
        answer = self.wire.ask(AddPartitionsToTxnRequest(transactions=(transaction,)), version)
        assert answer.error_code is ErrorCode.none
        return {
            (topic.name, partition.partition_index): partition.partition_error_code
            for topic in answer.results_by_transaction[0].topic_results
            for partition in topic.results_by_partition
        }

    def add_offsets(self, producer: Producer, version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            group_id=GroupId("g"),
        )
        error: ErrorCode = self.wire.ask(request, version).error_code
        return error

    def describe(self) -> TransactionState:
        answer = self.wire.ask(DescribeTransactionsRequest(transactional_ids=(self.transactional_id,)), 0)
        (state,) = answer.transaction_states
        assert isinstance(state, TransactionState)
        return state

    def completed(self) -> TransactionState:
        """The state once the markers of the last transaction are written."""

        def found() -> TransactionState | None:
            state = self.describe()
            return None if state.transaction_state.startswith("Prepare") else state

        return wait_until(found, "it is not carried out")

    def _find(self) -> None:
        """Have the topic of transactions made, as every client does with its first request, and loaded."""
        request = FindCoordinatorRequest(key_type=i8(1), coordinator_keys=(self.transactional_id or "x",))
        wait_until(lambda: self.wire.ask(request, 6).coordinators[0].error_code not in _WAIT, "there is no coordinator")
        wait_until(lambda: self.describe().error_code not in _WAIT, "the coordinator does not load")


def list_transactions(
    wire: Wire,
    *,
    states: tuple[str, ...] = (),
    producer_ids: tuple[int, ...] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
    version: int = 2,
) -> ListTransactionsResponse:
    request = ListTransactionsRequest(
        state_filters=states,
        producer_id_filters=tuple(map(ProducerId, producer_ids)),
        duration_filter=i64(duration_ms),
        transactional_id_pattern=pattern,
    )
    answer = wire.ask(request, version)
    assert isinstance(answer, ListTransactionsResponse)
    return answer
