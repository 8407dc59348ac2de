"""The transactional batches of one Produce request.

A batch of a transaction that has begun in its partition is appended at once. The first one of a transaction waits until the
transaction coordinator has verified that the partition belongs to it. Its records are copied, because the receive buffer is
reused in the meantime. Batches that arrive for the same partition in between wait behind it, so that batches keep the order in
which a connection sent them.
"""

import asyncio
from functools import partial
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.appends import Outcome, append_to, find, is_transactional
from catchment.broker.batch_preparation import PreparedData, copied_data
from catchment.broker.context import RequestContext
from catchment.broker.transactions.client_capabilities import ClientCapabilities
from catchment.broker.transactions.verification import VerificationRequest
from catchment.broker.turns import Turns
from catchment.coordination.coordinator_shard import Producer
from catchment.protocol.batch import BatchHeader, read_header
from catchment.protocol.errors import ApiError
from catchment.protocol.produce import PartitionData, ProduceRequest, TopicKey
from catchment.replication.partition import Partition
from catchment.replication.verification import Verification

_FIRST_WITH_TRANSACTION_ABORTABLE = 11
_FIRST_THAT_ADDS_PARTITIONS = 12
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
    must_start_at_zero: bool


async def append_in_transaction(
    context: RequestContext, request: ProduceRequest, transactional_id: str
) -> list[tuple[TopicKey, Row]]:
    version = context.header.api_version
    capabilities = ClientCapabilities(
        version >= _FIRST_WITH_TRANSACTION_ABORTABLE, version >= _FIRST_THAT_ADDS_PARTITIONS
    )
    client_error = partial(_client_error, adds_partitions=capabilities.adds_partitions)
    verifying = VerificationRequest(context.services, transactional_id, capabilities, client_error)
    # The records of a request of one turn may be views of the receive buffer: such a request does not wait here.
    turns = Turns()
    rows = [
        (
            topic,
            [(data.partition, _append(context, request, topic, data, verifying)) async for data in turns(partitions)],
        )
        async for topic, partitions in turns(request.topics)
    ]
    if verifying.is_pending:
        # Batches of other requests wait for the same outcome, so it is awaited even if this client disconnects.
        await asyncio.shield(verifying.send())
    return [(topic, [(number, await _outcome(outcome)) for number, outcome in row]) for topic, row in rows]


def _append(
    context: RequestContext,
    request: ProduceRequest,
    topic: TopicKey,
    data: PartitionData,
    verifying: VerificationRequest,
) -> "Outcome | asyncio.Future[Outcome]":
    try:
        partition, records = find(context, request, topic, data)
        if not is_transactional(records):
            return append_to(context, request, partition, data)
        header = read_header(records)
        producer = Producer(header.producer_id, header.producer_epoch)
        if not verifying.is_required(partition, producer):
            return append_to(context, request, partition, data)
        verification = partition.verifications.of(*producer, header.base_sequence)
        waiting = _Batch(
            context,
            request,
            topic,
            data if isinstance(data, PreparedData) else copied_data(request, data),
            partition,
            header,
            verification,
            verifying.capabilities.adds_partitions,
        )
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        verifying.add(partition, verification, header.base_sequence, partial(_verified, waiting, outcome))
        return outcome
    except ApiError as error:
        return error.without_stack()


def _verified(batch: _Batch, outcome: "asyncio.Future[Outcome]", error: ApiError | None) -> None:
    """The coordinator has answered: append in the same step, so that no marker can be written in between."""
    try:
        if error is not None:
            raise error
        partition, _ = find(batch.context, batch.request, batch.topic, batch.data)
        if partition is not batch.partition:
            raise ApiError(ErrorCode.not_leader_or_follower)
        if not _has_begun(batch):
            _check_first(batch)
        appended = append_to(batch.context, batch.request, partition, batch.data)
        if _has_begun(batch):
            partition.verifications.finish(batch.verification)
        _settle(outcome, appended)
    except ApiError as rejection:
        _settle(outcome, rejection.without_stack())


def _settle(future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def _has_begun(batch: _Batch) -> bool:
    return batch.partition.log.producers.has_open_transaction(batch.header.producer_id, batch.header.producer_epoch)


def _check_first(batch: _Batch) -> None:
    """Check the first batch of a transaction, in whatever order the requests arrived."""
    header = batch.header
    entry = batch.partition.log.producers.get(header.producer_id)
    if entry is not None and entry.batches and entry.epoch == header.producer_epoch:
        # The log checks the sequence itself. A duplicate that it rejected before does not count as missing.
        return
    if batch.must_start_at_zero and header.base_sequence != 0 and (entry is None or not entry.batches):
        raise ApiError(
            ErrorCode.out_of_order_sequence_number,
            f"producer {header.producer_id} starts with sequence {header.base_sequence}, not 0",
        )
    batch.verification.check_sequence(header.base_sequence)


async def _outcome(outcome: "Outcome | asyncio.Future[Outcome]") -> Outcome:
    return await outcome if isinstance(outcome, asyncio.Future) else outcome


def _client_error(code: ErrorCode, *, adds_partitions: bool) -> ApiError:
    """The error that a producer gets. It does not expect coordinator errors from Produce, but it retries NOT_ENOUGH_REPLICAS.

    Producers of transactions v2 understand CONCURRENT_TRANSACTIONS from Produce too.
    """
    if code in _COORDINATOR_ERRORS and not (adds_partitions and code is ErrorCode.concurrent_transactions):
        return ApiError(
            ErrorCode.not_enough_replicas, f"the transaction could not be verified now ({code.name}): retry"
        )
    return ApiError(code, "the partition is not part of an open transaction of this producer")
