"""Produce (key 0): append record batches, and respond once they are as durable as `acks` requires.

Behaviour
    Each partition has one batch of version 2, which is appended unchanged. If a topic is compacted, has its own compression type or
    uses LogAppendTime, a worker validates or rewrites the batch first; later requests of the connection wait for it, other
    connections do not. A request of more than a few hundred partitions is processed in turns from a copy, and blocks its own
    connection until the response.
    With acks=0 there is no response; on an error the connection is closed, which is all that such a client can notice. With
    acks=all the response waits until the high watermark has passed the batch, at most for the request's timeout and never longer
    than five minutes. A duplicate batch of an idempotent producer gets its original offset, once the original is durable. A client
    gets INVALID_TOPIC_EXCEPTION for internal topics, which belong to the coordinators.
    Transactional batches need the request's transactional id. Before the first batch of a transaction in a partition, the
    transaction coordinator verifies that the partition belongs to the transaction, so that a late batch cannot open a hanging
    transaction (KIP-890). A request with a transactional id may also have batches outside of transactions, as in Kafka.
Versions
    3-13, advertised from 0: otherwise librdkafka before 2.11.1 turns compression off (KAFKA-18659). zstd since 7.
    TRANSACTION_ABORTABLE since 11; older clients get INVALID_TXN_STATE. Since 12 (transactions v2) the broker adds partitions to
    the transaction itself. Topic ids since 13.
Gaps
    INVALID_TIMESTAMP does not name the records at fault: that would take a decompression of the batch.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from catchment.broker.appends import NEEDS_PREPARATION, Appended, Outcome, Rejected, append
from catchment.broker.batch_preparation import needs_preparation, prepare_batches
from catchment.broker.context import RequestContext
from catchment.broker.network.large_messages import LARGE_RESPONSE_ELEMENTS
from catchment.broker.network.routing import api
from catchment.broker.transactions.appends import append_in_transaction
from catchment.broker.turns import ITEMS_PER_TURN, Turns
from catchment.protocol import produce as wire
from catchment.protocol.errors import ApiError
from catchment.protocol.headers import RequestHeader
from catchment.protocol.produce import PartitionResponse, ProduceRequest, TopicKey, TopicResponse
from catchment.protocol.wire import Piece

_MAX_WAIT_MS = 300_000
"""Longer than clients wait for a response. They choose the timeout, and the broker holds memory for each request that waits."""

TopicOutcomes = tuple[TopicKey, list[tuple[int, Outcome]]]


def _decode(frame: memoryview, header: RequestHeader) -> ProduceRequest:
    return wire.decode_request(frame, header.body_offset, header.api_version, ITEMS_PER_TURN)


def _decode_copy(frame: memoryview, header: RequestHeader) -> ProduceRequest:
    return wire.decode_request(frame, header.body_offset, header.api_version)._replace(is_copy=True)


def _is_large(topics: list[TopicResponse]) -> bool:
    return len(topics) + sum([len(topic.partitions) for topic in topics]) > LARGE_RESPONSE_ELEMENTS


def _encode(topics: list[TopicResponse], header: RequestHeader, throttle_time_ms: int = 0) -> Sequence[Piece]:
    return (wire.encode_response(topics, header.api_version, throttle_time_ms),)


@api(
    wire.API_KEY,
    versions=(3, 13),
    decode=_decode,
    decode_copy=_decode_copy,
    encode=_encode,
    is_large=_is_large,
    cancel_on_disconnect=True,
)
async def produce(context: RequestContext, request: ProduceRequest) -> list[TopicResponse] | None:
    # Records are views of a buffer that the next frame overwrites, so they are appended before the first suspension.
    # Only a request of more than one turn is a copy, and it blocks its connection until the response.
    may_be_disconnected = request.is_copy
    transactional_id = request.transactional_id
    if transactional_id is None:
        outcomes = (
            await _append_in_turns(context, request)
            if request.is_copy
            else [
                (topic, [(data.partition, append(context, request, topic, data)) for data in partitions])
                for topic, partitions in request.topics
            ]
        )
        waiting, errors = _split(outcomes)
        if NEEDS_PREPARATION in errors:
            may_be_disconnected = True
            outcomes = await _append_prepared(context, await prepare_batches(context, request), outcomes)
            waiting, errors = _split(outcomes)
    else:
        if needs_preparation(context, request):
            may_be_disconnected = True
            request = await prepare_batches(context, request)
        outcomes = await append_in_transaction(context, request, transactional_id)
        waiting, errors = _split(outcomes)
    if request.acks == 0:
        if errors:
            raise errors[-1]
        return None
    if waiting:
        if may_be_disconnected and context.connection is not None and not context.connection.is_open:
            # The batches are appended, and no client waits for the response any more.
            return None
        await _wait(waiting, request.timeout_ms)
    if request.is_copy:
        return await _responses_in_turns(outcomes)
    return [TopicResponse(topic, [_response(number, outcome) for number, outcome in row]) for topic, row in outcomes]


async def _append_in_turns(context: RequestContext, request: ProduceRequest) -> list[TopicOutcomes]:
    turns = Turns()
    return [
        (topic, [(data.partition, append(context, request, topic, data)) async for data in turns(partitions)])
        async for topic, partitions in turns(request.topics)
    ]


async def _responses_in_turns(outcomes: list[TopicOutcomes]) -> list[TopicResponse]:
    turns = Turns()
    return [
        TopicResponse(topic, [_response(number, outcome) async for number, outcome in turns(row)])
        async for topic, row in turns(outcomes)
    ]


async def _append_prepared(
    context: RequestContext, request: ProduceRequest, outcomes: list[TopicOutcomes]
) -> list[TopicOutcomes]:
    """Append the batches that had to be prepared; the outcome of every batch."""
    turns = Turns()
    return [
        (
            topic,
            [
                (data.partition, append(context, request, topic, data) if outcome is NEEDS_PREPARATION else outcome)
                async for data, (_, outcome) in turns(zip(partitions, row, strict=True))
            ],
        )
        async for (topic, partitions), (_, row) in turns(zip(request.topics, outcomes, strict=True))
    ]


def _split(outcomes: list[TopicOutcomes]) -> "tuple[list[asyncio.Future[None]], list[ApiError]]":
    """The appends to wait for, and the errors."""
    waiting: list[asyncio.Future[None]] = []
    errors: list[ApiError] = []
    for _, row in outcomes:
        for _, outcome in row:
            if isinstance(outcome, ApiError):
                errors.append(outcome)
            elif outcome.durable is not None:
                waiting.append(outcome.durable)
    return waiting, errors


async def _wait(waiting: "list[asyncio.Future[None]]", timeout_ms: int) -> None:
    """Wait until each append is durable or has failed, but no longer than the client does."""
    timeout_ms = min(max(timeout_ms, 0), _MAX_WAIT_MS)
    timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, _expire, waiting)
    try:
        for durable in waiting:
            with contextlib.suppress(ApiError):
                await durable
    finally:
        timer.cancel()


def _expire(waiting: "list[asyncio.Future[None]]") -> None:
    for durable in waiting:
        if not durable.done():
            durable.set_exception(ApiError(ErrorCode.request_timed_out))


def _response(number: int, outcome: Outcome) -> PartitionResponse:
    if isinstance(outcome, Appended):
        failure = outcome.durable.exception() if outcome.durable is not None else None
        if failure is None:
            info = outcome.info
            return PartitionResponse(number, 0, info.base_offset, info.log_append_time_ms, info.log_start_offset)
        outcome = failure if isinstance(failure, ApiError) else ApiError(ErrorCode.unknown_server_error, str(failure))
    return PartitionResponse(
        number,
        outcome.code.value,
        log_start_offset=outcome.log_start_offset if isinstance(outcome, Rejected) else -1,
        error_message=outcome.message,
        record_errors=outcome.record_errors,
    )
