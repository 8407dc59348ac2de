"""Produce (key 0): append batches, and answer once they are as safe as `acks` asks.

Behaviour
    Each partition's data is one version-2 batch, appended as it came. With acks=0 there is no answer; if something goes
    wrong then, the connection is closed, which is all that such a client can notice. With acks=all the answer waits until
    the high watermark has passed the batch, at most for the request's time-out. A repeated batch of an idempotent producer
    is answered with its first offset, once the original is safe. Internal topics belong to the coordinators: a client's batch
    gets INVALID_TOPIC_EXCEPTION there.
Versions
    3-13, advertised from 0: librdkafka before 2.11.1 turns compression off otherwise (KAFKA-18659). Topic ids from 13 on.
Gaps
    Transactional batches are refused until the broker has a transaction coordinator.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.cluster.metadata import INTERNAL_TOPICS
from catchment.protocol import produce as wire
from catchment.protocol.errors import ApiError
from catchment.protocol.headers import RequestHeader
from catchment.protocol.produce import PartitionAnswer, PartitionData, ProduceRequest, TopicAnswer, TopicKey
from catchment.protocol.wire import Piece
from catchment.storage.log_parts import AppendInfo

ALL = -1
_ADMIN_CLIENT_ID = "__admin_client"
"""By this name Kafka's own tools are told from other clients."""
_ACKS = (ALL, 0, 1)


class _Appended(NamedTuple):
    info: AppendInfo
    safe: "asyncio.Future[None] | None"
    """Done once the batch cannot be lost; None where nobody waits for that, or it is so already."""


_Outcome = _Appended | ApiError


def _decode(frame: memoryview, header: RequestHeader) -> ProduceRequest:
    return wire.decode_request(frame, header.body_offset, header.api_version)


def _encode(topics: list[TopicAnswer], header: RequestHeader) -> Sequence[Piece]:
    return (wire.encode_response(topics, header.api_version),)


@api(wire.API_KEY, versions=(3, 13), decode=_decode, encode=_encode)
async def produce(context: RequestContext, request: ProduceRequest) -> list[TopicAnswer] | None:
    # All appends come before the first wait: the records are views of a buffer that the next frame will overwrite.
    outcomes: list[tuple[TopicKey, list[tuple[int, _Outcome]]]] = []
    waiting: list[asyncio.Future[None]] = []
    refusal: ApiError | None = None
    for topic, partitions in request.topics:
        row: list[tuple[int, _Outcome]] = []
        for data in partitions:
            outcome = _append(context, request, topic, data)
            row.append((data.partition, outcome))
            if isinstance(outcome, ApiError):
                refusal = outcome
            elif outcome.safe is not None:
                waiting.append(outcome.safe)
        outcomes.append((topic, row))
    if request.acks == 0:
        if refusal is not None:
            raise refusal
        return None
    if waiting:
        await _wait(waiting, request.timeout_ms)
    return [TopicAnswer(topic, [_answer(number, outcome) for number, outcome in row]) for topic, row in outcomes]


def _append(context: RequestContext, request: ProduceRequest, topic: TopicKey, data: PartitionData) -> _Outcome:
    try:
        if request.acks not in _ACKS:
            raise ApiError(ErrorCode.invalid_required_acks, f"acks must be -1, 0 or 1, not {request.acks}")
        if request.transactional_id is not None:
            raise ApiError(ErrorCode.transactional_id_authorization_failed, "this broker has no transactions yet")
        if data.records is None:
            raise ApiError(ErrorCode.invalid_record, "a partition without records")
        partition = context.services.replicas.find(topic, data.partition)
        if partition.topic in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT_ID:
            raise ApiError(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {partition.topic}")
        info = partition.append(data.records, request.acks)
        context.services.traffic.produced(data.records.nbytes)
        return _Appended(info, partition.durable(info) if request.acks == ALL else None)
    except ApiError as error:
        return error


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


def _answer(number: int, outcome: _Outcome) -> PartitionAnswer:
    if isinstance(outcome, _Appended):
        failure = outcome.safe.exception() if outcome.safe is not None else None
        if failure is None:
            info = outcome.info
            return PartitionAnswer(number, 0, info.base_offset, info.log_append_time_ms, info.log_start_offset)
        outcome = failure if isinstance(failure, ApiError) else ApiError(ErrorCode.unknown_server_error, str(failure))
    return PartitionAnswer(number, outcome.code.value, error_message=outcome.message)
