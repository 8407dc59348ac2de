"""Produce (key 0): append batches, and answer once they are as safe as `acks` asks.

Behaviour
    Each partition's data is one version-2 batch, appended as it came. Where a topic is compacted, has a codec of its own or
    stamps batches with its own time, a worker opens or changes the batch first; later requests of the connection wait for
    that, those of others do not. A request of more than a few hundred partitions is served from a copy, in turns: it holds up
    its own connection until it is answered, and no other. With acks=0 there is no answer; if something goes
    wrong then, the connection is closed, which is all that such a client can notice. With acks=all the answer waits until
    the high watermark has passed the batch, at most for the request's time-out, and never longer than five minutes.
    A repeated batch of an idempotent producer
    is answered with its first offset, once the original is safe. Internal topics belong to the coordinators: a client's batch
    gets INVALID_TOPIC_EXCEPTION there.
    Transactional batches need the request's transactional id. Before the first one of a transaction in a partition, the
    transaction coordinator is asked whether the partition belongs to the transaction, so that a batch that comes after the
    end of its transaction is refused, and cannot hold up readers for ever (KIP-890). A batch outside of transactions is
    taken in a request with a transactional id too, as by Kafka.
Versions
    3-13, advertised from 0: librdkafka before 2.11.1 turns compression off otherwise (KAFKA-18659). TRANSACTION_ABORTABLE
    from 11 on, where older clients get INVALID_TXN_STATE. From 12 on (transactions v2) the broker adds the partitions of a
    transaction itself. Topic ids from 13 on. zstd from 7 on.
Gaps
    INVALID_TIMESTAMP does not name the records at fault: that would take a look into the batch.
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
"""Beyond what clients wait for an answer; they choose the time-out, and the broker holds something for each that waits."""

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
    # What can be appended is, before the first wait: records are views of a buffer that the next frame will overwrite.
    # Only a request of more than one turn is a copy, and the connection is held up until it is answered.
    may_have_gone = request.is_copy
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
        waiting, refusals = _sorted(outcomes)
        if NEEDS_PREPARATION in refusals:
            may_have_gone = True
            outcomes = await _append_prepared(context, await prepare_batches(context, request), outcomes)
            waiting, refusals = _sorted(outcomes)
    else:
        if needs_preparation(context, request):
            may_have_gone = True
            request = await prepare_batches(context, request)
        outcomes = await append_in_transaction(context, request, transactional_id)
        waiting, refusals = _sorted(outcomes)
    if request.acks == 0:
        if refusals:
            raise refusals[-1]
        return None
    if waiting:
        if may_have_gone and context.connection is not None and not context.connection.is_open:
            # What was asked is done, and there is no client left to wait with.
            return None
        await _wait(waiting, request.timeout_ms)
    if request.is_copy:
        return await _answer_in_turns(outcomes)
    return [TopicResponse(topic, [_answer(number, outcome) for number, outcome in row]) for topic, row in outcomes]


async def _append_in_turns(context: RequestContext, request: ProduceRequest) -> list[TopicOutcomes]:
    turns = Turns()
    return [
        (topic, [(data.partition, append(context, request, topic, data)) async for data in turns(partitions)])
        async for topic, partitions in turns(request.topics)
    ]


async def _answer_in_turns(outcomes: list[TopicOutcomes]) -> list[TopicResponse]:
    turns = Turns()
    return [
        TopicResponse(topic, [_answer(number, outcome) async for number, outcome in turns(row)])
        async for topic, row in turns(outcomes)
    ]


async def _append_prepared(
    context: RequestContext, request: ProduceRequest, outcomes: list[TopicOutcomes]
) -> list[TopicOutcomes]:
    """What became of every batch, now that those are prepared that had to wait for it."""
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


def _sorted(outcomes: list[TopicOutcomes]) -> "tuple[list[asyncio.Future[None]], list[ApiError]]":
    """What has to be waited for, and what was rejected."""
    waiting: list[asyncio.Future[None]] = []
    refusals: list[ApiError] = []
    for _, row in outcomes:
        for _, outcome in row:
            if isinstance(outcome, ApiError):
                refusals.append(outcome)
            elif outcome.durable is not None:
                waiting.append(outcome.durable)
    return waiting, refusals


async def _wait(waiting: "list[asyncio.Future[None]]", timeout_ms: int) -> None:
    """Wait until each append is safe or has failed, but no longer than the client does."""
    timeout_ms = min(max(timeout_ms, 0), _MAX_WAIT_MS)
    timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, _expire, waiting)
    try:
        for safe in waiting:
            with contextlib.suppress(ApiError):
                await safe
    finally:
        timer.cancel()


def _expire(waiting: "list[asyncio.Future[None]]") -> None:
    for safe in waiting:
        if not safe.done():
            safe.set_exception(ApiError(ErrorCode.request_timed_out))


def _answer(number: int, outcome: Outcome) -> PartitionResponse:
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
