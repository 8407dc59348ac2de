"""Fetch (key 1): hand out the log's own bytes, from an offset on.

Behaviour
    Answers at once if there are `min_bytes`, an error, or nothing to wait for; else when enough has arrived or `max_wait`
    is over. The first batch found is always returned whole, however large, or a consumer would be stuck for ever (KIP-74).
    Readers see up to the high watermark, readers of committed data up to the last stable offset, with the aborted
    transactions of what they get. With a session (KIP-227) only partitions that have something new are answered.
    Data that the page cache does not hold is read by another thread, so that nobody else waits for the device.
    Later requests of the same connection wait, as with Kafka: an answer may be large. A client beyond its quota gets an empty
    answer with the time to pause, but data with it if it has had none in the whole window: one batch may be larger than that.
Versions
    4-18. Topic ids from 13 on.
Gaps
    Followers cannot fetch yet; there is no preferred read replica.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.context import RequestContext
from catchment.broker.fetch_sessions import FetchSession, SessionPartition
from catchment.broker.routing import api
from catchment.protocol import fetch as wire
from catchment.protocol.errors import ApiError
from catchment.protocol.fetch import READ_COMMITTED, FetchRequest, PartitionAnswer, TopicAnswer
from catchment.protocol.headers import RequestHeader
from catchment.protocol.produce import TopicKey
from catchment.protocol.wire import Piece
from catchment.replication.partition import Partition
from catchment.storage.lookup import FileRange


class FetchAnswer(NamedTuple):
    topics: list[TopicAnswer]
    error_code: int = 0
    session_id: int = 0


class _Found(NamedTuple):
    """What one partition has for the reader, not read yet."""

    asked: SessionPartition
    partition: Partition | None = None
    range: FileRange | None = None
    error: ApiError | None = None

    @property
    def size(self) -> int:
        return self.range.size if self.range is not None else 0


def _decode(frame: memoryview, header: RequestHeader) -> FetchRequest:
    return wire.decode_request(frame, header.body_offset, header.api_version)


def _encode(answer: FetchAnswer, header: RequestHeader, throttle_time_ms: int = 0) -> Sequence[Piece]:
    return wire.encode_response(
        answer.topics,
        header.api_version,
        error_code=answer.error_code,
        session_id=answer.session_id,
        throttle_time_ms=throttle_time_ms,
    )


@api(wire.API_KEY, versions=(4, 18), decode=_decode, encode=_encode, holds_up=True)
async def fetch(context: RequestContext, request: FetchRequest) -> FetchAnswer:
    if request.replica_id >= 0:
        return FetchAnswer([], ErrorCode.not_leader_or_follower.value)
    try:
        session = context.services.fetch_sessions.open(request)
    except ApiError as error:
        return FetchAnswer([], error.code.value)
    meter = context.meter
    if meter is not None:
        most_bytes = meter.most_fetched_bytes()
        request = request._replace(
            max_bytes=min(request.max_bytes, most_bytes), min_bytes=min(request.min_bytes, most_bytes)
        )
    found = _find_all(context, request, session)
    if not _is_enough(found, request):
        found = await _wait(context, request, session, found)
    if meter is not None and not meter.may_fetch(sum([each.size for each in found])):
        return FetchAnswer([], session_id=context.services.fetch_sessions.leave(session))
    return await _answer(context, request, session, found)


def _find_all(context: RequestContext, request: FetchRequest, session: FetchSession) -> list[_Found]:
    """Where each partition's data lies, within the limits of the request and of what the broker holds unsent."""
    services = context.services
    left = min(request.max_bytes, services.max_fetch_bytes())
    is_empty = True
    all_found = []
    for asked in session.partitions():
        found = _find(context, request, asked, left, is_first=is_empty)
        if found.size:
            is_empty = False
            left = max(0, left - found.size)
        all_found.append(found)
    return all_found


def _find(
    context: RequestContext, request: FetchRequest, asked: SessionPartition, left: int, *, is_first: bool
) -> _Found:
    try:
        partition = context.services.replicas.find(asked.topic, asked.request.partition)
        partition.check_epoch(asked.request.current_leader_epoch)
        log = partition.log
        offset = asked.request.fetch_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise ApiError(ErrorCode.offset_out_of_range)
        committed = request.isolation_level == READ_COMMITTED
        upper_offset = partition.last_stable_offset if committed else partition.high_watermark
        size = min(left, asked.request.max_bytes)
        if offset >= upper_offset or (size <= 0 and not is_first):
            return _Found(asked, partition)
        return _Found(asked, partition, log.locate(offset, size, upper_offset, at_least_one_batch=is_first))
    except ApiError as error:
        return _Found(asked, error=error)
    except OSError as error:
        # Where the index does not say it, the place is looked for in the log itself.
        return _Found(asked, error=ApiError(ErrorCode.kafka_storage_error, str(error)))


def _is_enough(found: list[_Found], request: FetchRequest) -> bool:
    if request.max_wait_ms <= 0 or not found:
        return True
    return sum([each.size for each in found]) >= request.min_bytes or any(each.error is not None for each in found)


async def _wait(
    context: RequestContext, request: FetchRequest, session: FetchSession, found: list[_Found]
) -> list[_Found]:
    """Look again whenever one of the partitions has moved, until there is enough or time is up."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + request.max_wait_ms / 1000
    partitions = [each.partition for each in found if each.partition is not None]
    moved: asyncio.Future[bool] = loop.create_future()

    def wake(has_moved: bool = True) -> None:
        if not moved.done():
            moved.set_result(has_moved)

    timer = loop.call_at(deadline_s, wake, False)
    for partition in partitions:
        partition.readers.add(wake)
    try:
        while await moved:
            found = _find_all(context, request, session)
            if _is_enough(found, request):
                break
            moved = loop.create_future()
            if loop.time() >= deadline_s:
                break
    finally:
        timer.cancel()
        for partition in partitions:
            partition.readers.remove(wake)
    return found


async def _answer(
    context: RequestContext, request: FetchRequest, session: FetchSession, found: list[_Found]
) -> FetchAnswer:
    topics: dict[TopicKey, TopicAnswer] = {}
    sent_bytes = 0
    for each in found:
        answer = await _read(context, request, each)
        if session.should_send(each.asked, answer):
            sent_bytes += each.size
            topic = topics.get(each.asked.topic)
            if topic is None:
                topic = topics[each.asked.topic] = TopicAnswer(each.asked.topic, [])
            topic.partitions.append(answer)
    context.services.traffic.fetched(sent_bytes)
    return FetchAnswer(list(topics.values()), session_id=session.id)


async def _read(context: RequestContext, request: FetchRequest, found: _Found) -> PartitionAnswer:
    number = found.asked.request.partition
    partition = found.partition
    if found.error is not None or partition is None:
        code = found.error.code if found.error is not None else ErrorCode.unknown_server_error
        return PartitionAnswer(number, code.value)
    log = partition.log
    committed = request.isolation_level == READ_COMMITTED
    aborted: list[tuple[int, int]] | None = [] if committed else None
    records: Piece = b""
    if found.range is not None:
        try:
            if found.range.file.would_block(found.range.position, found.range.size):
                records = await context.services.disk.read_later(*found.range)
            else:
                records = found.range.file.read(found.range.position, found.range.size)
        except OSError:
            return PartitionAnswer(number, ErrorCode.kafka_storage_error.value)
        if committed:
            start, end = found.asked.request.fetch_offset, partition.last_stable_offset
            aborted = log.aborted_transactions(start, end, found.range)
    return PartitionAnswer(
        number,
        0,
        partition.high_watermark,
        partition.last_stable_offset,
        log.log_start_offset,
        aborted,
        records=records,
    )
