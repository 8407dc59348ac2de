"""Produce (key 0): append batches, and answer once they are as safe as `acks` asks.

Behaviour
    Each partition's data is one version-2 batch, appended as it came. With acks=0 there is no answer; if something goes
    wrong then, the connection is closed, which is all that such a client can notice. With acks=all the answer waits until
    the high watermark has passed the batch, at most for the request's time-out. A repeated batch of an idempotent producer
    is answered with its first offset, once the original is safe. Internal topics belong to the coordinators: a client's batch
    gets INVALID_TOPIC_EXCEPTION there.
    Transactional batches need the request's transactional id. Before the first one of a transaction in a partition, the
    transaction coordinator is asked whether the partition belongs to the transaction, so that a batch that comes after the
    end of its transaction is refused, and cannot hold up readers for ever (KIP-890). A batch outside of transactions is
    taken in a request with a transactional id too, as by Kafka.
Versions
    3-13, advertised from 0: librdkafka before 2.11.1 turns compression off otherwise (KAFKA-18659). TRANSACTION_ABORTABLE
    from 11 on, where older clients get INVALID_TXN_STATE. From 12 on (transactions v2) the broker adds the partitions of a
    transaction itself. Topic ids from 13 on.
Gaps
    None.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from catchment.broker.appends import Appended, Outcome, append
from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.broker.transactional_appends import append_in_transaction
from catchment.protocol import produce as wire
from catchment.protocol.errors import ApiError
from catchment.protocol.headers import RequestHeader
from catchment.protocol.produce import PartitionAnswer, ProduceRequest, TopicAnswer
from catchment.protocol.wire import Piece


def _decode(frame: memoryview, header: RequestHeader) -> ProduceRequest:
    return wire.decode_request(frame, header.body_offset, header.api_version)


def _encode(topics: list[TopicAnswer], header: RequestHeader, throttle_time_ms: int = 0) -> Sequence[Piece]:
    return (wire.encode_response(topics, header.api_version, throttle_time_ms),)


@api(wire.API_KEY, versions=(3, 13), decode=_decode, encode=_encode)
async def produce(context: RequestContext, request: ProduceRequest) -> list[TopicAnswer] | None:
    # What can be appended is, before the first wait: records are views of a buffer that the next frame will overwrite.
    if request.transactional_id is None:
        outcomes = [
            (topic, [(data.partition, append(context, request, topic, data)) for data in partitions])
            for topic, partitions in request.topics
        ]
    else:
        outcomes = await append_in_transaction(context, request, request.transactional_id)
    waiting: list[asyncio.Future[None]] = []
    refusal: ApiError | None = None
    for _, row in outcomes:
        for _, outcome in row:
            if isinstance(outcome, ApiError):
                refusal = outcome
            elif outcome.safe is not None:
                waiting.append(outcome.safe)
    if request.acks == 0:
        if refusal is not None:
            raise refusal
        return None
    if waiting:
        await _wait(waiting, request.timeout_ms)
    return [TopicAnswer(topic, [_answer(number, outcome) for number, outcome in row]) for topic, row in outcomes]


async def _wait(waiting: "list[asyncio.Future[None]]", timeout_ms: int) -> None:
    """Wait until each append is safe or has failed, but no longer than the client does."""
    timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, _expire, waiting)
    for safe in waiting:
        with contextlib.suppress(ApiError):
            await safe
    timer.cancel()


def _expire(waiting: "list[asyncio.Future[None]]") -> None:
    for safe in waiting:
        if not safe.done():
            safe.set_exception(ApiError(ErrorCode.request_timed_out))


def _answer(number: int, outcome: Outcome) -> PartitionAnswer:
    if isinstance(outcome, Appended):
        failure = outcome.safe.exception() if outcome.safe is not None else None
        if failure is None:
            info = outcome.info
            return PartitionAnswer(number, 0, info.base_offset, info.log_append_time_ms, info.log_start_offset)
        outcome = failure if isinstance(failure, ApiError) else ApiError(ErrorCode.unknown_server_error, str(failure))
    return PartitionAnswer(number, outcome.code.value, error_message=outcome.message)
