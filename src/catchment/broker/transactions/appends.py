"""The transactional batches of one Produce request.

A batch of a transaction that has begun in its partition is appended at once. The first one of a transaction waits until the
transaction coordinator has said that the partition belongs to it; its records are copied, since the receive buffer is used
again meanwhile. What arrives for the same partition in between waits behind it, so that batches keep the order in which a
connection sent them.
"""

import asyncio
from functools import partial
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.appends import Outcome, append_to, find, is_transactional
from catchment.broker.batch_preparation import OpenedData, owned
from catchment.broker.context import RequestContext
from catchment.broker.transactions.verification import Abilities, Questions
from catchment.broker.turns import Turns
from catchment.coordination.coordinator_shard import Producer
from catchment.protocol.batch import BatchHeader, read_header
from catchment.protocol.errors import ApiError
from catchment.protocol.produce import PartitionData, ProduceRequest, TopicKey
from catchment.replication.partition import Partition
from catchment.replication.verification import Verification

_FIRST_WITH_ABORTABLE = 11
_FIRST_THAT_ADDS = 12
_COORDINATOR_ERRORS = (
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)

Row = list[tuple[int, Outcome]]


class _Batch(NamedTuple):
    """A batch that waits for its transaction to be verified."""

    context: RequestContext
    request: ProduceRequest
    topic: TopicKey
    data: PartitionData
    partition: Partition
    header: BatchHeader
    verification: Verification
    must_begin_at_zero: bool


async def append_in_transaction(
    context: RequestContext, request: ProduceRequest, transactional_id: str
) -> list[tuple[TopicKey, Row]]:
    version = context.header.api_version
    abilities = Abilities(version >= _FIRST_WITH_ABORTABLE, version >= _FIRST_THAT_ADDS)
    questions = Questions(context.services, transactional_id, abilities, partial(_refusal, adds=abilities.adds))
    # The records of a request of one turn may be views of the receive buffer: it does not wait here.
    turns = Turns()
    rows = [
        (
            topic,
            [(data.partition, _append(context, request, topic, data, questions)) async for data in turns(partitions)],
        )
        async for topic, partitions in turns(request.topics)
    ]
    if questions.are_open:
        # Batches of other requests wait for the same answer, so it is awaited even if this client goes.
        await asyncio.shield(questions.ask())
    return [(topic, [(number, await _outcome(outcome)) for number, outcome in row]) for topic, row in rows]


def _append(
    context: RequestContext, request: ProduceRequest, topic: TopicKey, data: PartitionData, questions: Questions
) -> "Outcome | asyncio.Future[Outcome]":
    try:
        partition, records = find(context, request, topic, data)
        if not is_transactional(records):
            return append_to(context, request, partition, data)
        header = read_header(records)
        producer = Producer(header.producer_id, header.producer_epoch)
        if not questions.concerns(partition, producer):
            return append_to(context, request, partition, data)
        verification = partition.verifications.of(*producer, header.base_sequence)
        waiting = _Batch(
            context,
            request,
            topic,
            data if isinstance(data, OpenedData) else owned(request, data),
            partition,
            header,
            verification,
            questions.abilities.adds,
        )
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        questions.add(partition, verification, header.base_sequence, partial(_verified, waiting, outcome))
        return outcome
    except ApiError as error:
        return error.without_stack()


def _verified(batch: _Batch, outcome: "asyncio.Future[Outcome]", refusal: ApiError | None) -> None:
    """The coordinator has answered: append in this very step, before any marker can come between."""
    try:
        if refusal is not None:
            raise refusal
        partition, _ = find(batch.context, batch.request, batch.topic, batch.data)
        if partition is not batch.partition:
            raise ApiError(ErrorCode.not_leader_or_follower)
        if not _has_begun(batch):
            _check_first(batch)
        appended = append_to(batch.context, batch.request, partition, batch.data)
        if _has_begun(batch):
            partition.verifications.finish(batch.verification)
        _settle(outcome, appended)
    except ApiError as error:
        _settle(outcome, error.without_stack())


def _settle(future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def _has_begun(batch: _Batch) -> bool:
    return batch.partition.log.producers.has_open_transaction(batch.header.producer_id, batch.header.producer_epoch)


def _check_first(batch: _Batch) -> None:
    """The first batch of a transaction, however the requests may have overtaken each other."""
    header = batch.header
    entry = batch.partition.log.producers.get(header.producer_id)
    if entry is not None and entry.batches and entry.epoch == header.producer_epoch:
        # The log knows which sequence is next. A late batch that it has already, and that was rejected, is not missing.
        return
    if batch.must_begin_at_zero and header.base_sequence != 0 and (entry is None or not entry.batches):
        raise ApiError(
            ErrorCode.out_of_order_sequence_number,
            f"producer {header.producer_id} begins with sequence {header.base_sequence}, not 0",
        )
    batch.verification.check_sequence(header.base_sequence)


async def _outcome(outcome: "Outcome | asyncio.Future[Outcome]") -> Outcome:
    return await outcome if isinstance(outcome, asyncio.Future) else outcome


def _refusal(code: ErrorCode, *, adds: bool) -> ApiError:
    """The error that a producer gets: errors of coordinators mean nothing to it, but it does send a batch again for lack of replicas.

    Producers of transactions v2 know CONCURRENT_TRANSACTIONS from Produce too.
    """
    if code in _COORDINATOR_ERRORS and not (adds and code is ErrorCode.concurrent_transactions):
        return ApiError(
            ErrorCode.not_enough_replicas, f"the transaction could not be verified now ({code.name}); try again"
        )
    return ApiError(code, "the partition is not part of an open transaction of this producer")
