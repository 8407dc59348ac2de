"""Fetch (key 1): return record batches from an offset on, as the log stores them.

Behaviour
    The response is sent at once if there are `min_bytes`, an error, or nothing to wait for; otherwise when enough has arrived, when
    `max_wait` is over (at most 30 s), or when the client closes its side. Unknown topics and partitions do not end the wait while
    there is another partition to wait for: a client continues to read while it learns that a topic was deleted. The first batch
    is always returned whole, however large, otherwise a consumer could get stuck (KIP-74).
    Consumers read up to the high watermark; with READ_COMMITTED up to the last stable offset, with the aborted transactions of the
    returned range. An incremental fetch in a fetch session (KIP-227) returns only partitions with changes.
    Data that is not in the page cache is read by another thread, so that no other client waits for the disk. Many partitions are
    located and read in turns, so a response is not a snapshot of one moment.
    Later requests of the same connection wait, as in Kafka: a response may be large. A client beyond its quota gets an empty
    response with a throttle time. If it received nothing in the whole window, it gets data too: one batch may exceed the quota.
Versions
    4-18. Topic ids since 13.
Gaps
    Followers cannot fetch yet; there is no preferred read replica.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.context import MAX_WAIT_MS, RequestContext
from catchment.broker.fetch_sessions import FetchSession, SessionPartition
from catchment.broker.network.large_messages import LARGE_RESPONSE_ELEMENTS
from catchment.broker.network.routing import api
from catchment.broker.turns import ITEMS_PER_TURN, in_turns
from catchment.protocol import fetch as wire
from catchment.protocol.errors import ApiError
from catchment.protocol.fetch import READ_COMMITTED, FetchRequest, PartitionResponse, TopicResponse
from catchment.protocol.headers import RequestHeader
from catchment.protocol.produce import TopicKey
from catchment.protocol.wire import Piece
from catchment.replication.partition import Partition
from catchment.storage.segments.lookup import FileRange

_UNKNOWN = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)


class FetchResponse(NamedTuple):
    topics: list[TopicResponse]
    error_code: int = 0
    session_id: int = 0


class _Located(NamedTuple):
    """The data of one partition for the client: located, not read yet."""

    asked: SessionPartition
    partition: Partition | None = None
    range: FileRange | None = None
    fetch_offset: int = -1
    """The start of the range. Another request of the session may change the offset in the session in the meantime."""
    error: ApiError | None = None

    @property
    def size(self) -> int:
        return self.range.size if self.range is not None else 0

    @property
    def is_unknown(self) -> bool:
        return self.error is not None and self.error.code in _UNKNOWN


def _decode(frame: memoryview, header: RequestHeader) -> FetchRequest:
    return wire.decode_request(frame, header.body_offset, header.api_version)


def _encode(response: FetchResponse, header: RequestHeader, throttle_time_ms: int = 0) -> Sequence[Piece]:
    return wire.encode_response(
        response.topics,
        header.api_version,
        error_code=response.error_code,
        session_id=response.session_id,
        throttle_time_ms=throttle_time_ms,
    )


def _is_large(response: FetchResponse) -> bool:
    return len(response.topics) + sum([len(topic.partitions) for topic in response.topics]) > LARGE_RESPONSE_ELEMENTS


@api(
    wire.API_KEY,
    versions=(4, 18),
    decode=_decode,
    encode=_encode,
    is_large=_is_large,
    blocks_connection=True,
    cancel_on_disconnect=True,
)
async def fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
    if request.replica_id >= 0:
        return FetchResponse([], ErrorCode.not_leader_or_follower.value)
    try:
        session = context.services.fetch_sessions.open(request)
    except ApiError as error:
        return FetchResponse([], error.code.value)
    meter = context.meter
    if meter is not None:
        max_bytes = meter.max_fetch_bytes()
        request = request._replace(
            max_bytes=min(request.max_bytes, max_bytes), min_bytes=min(request.min_bytes, max_bytes)
        )
    found = await _locate_all(context, request, session)
    if not _is_enough(found, request):
        found = await _wait(context, request, session, found)
    if meter is not None and not meter.record_fetch_if_allowed(sum([each.size for each in found])):
        return FetchResponse([], session_id=context.services.fetch_sessions.leave(request, session))
    return await _response(context, request, session, found)


async def _locate_all(context: RequestContext, request: FetchRequest, session: FetchSession) -> list[_Located]:
    """Locate the data of each partition, within the limits of the request and of unsent responses.

    Many partitions are located in turns: the first may have changed before the last is located, and so may the session.
    """
    locator = _Locator(context, request)
    if len(session) <= ITEMS_PER_TURN:
        locator.add(session.partitions())
    else:
        async for partitions in in_turns(list(session.partitions())):
            locator.add(partitions)
    return locator.found


class _Locator:
    __slots__ = ("_context", "_is_empty", "_left", "_request", "found")

    def __init__(self, context: RequestContext, request: FetchRequest) -> None:
        self._context = context
        self._request = request
        self._left = min(request.max_bytes, context.services.max_fetch_bytes())
        self._is_empty = True
        self.found: list[_Located] = []

    def add(self, partitions: Iterable[SessionPartition]) -> None:
        for asked in partitions:
            found = _locate(self._context, self._request, asked, self._left, is_first=self._is_empty)
            if found.size:
                self._is_empty = False
                self._left = max(0, self._left - found.size)
            self.found.append(found)


def _locate(
    context: RequestContext, request: FetchRequest, asked: SessionPartition, left: int, *, is_first: bool
) -> _Located:
    try:
        partition = context.services.replicas.find(asked.topic, asked.request.partition)
        asked.was_known = True
        partition.check_epoch(asked.request.current_leader_epoch)
        log = partition.log
        offset = asked.request.fetch_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise ApiError(ErrorCode.offset_out_of_range)
        committed = request.isolation_level == READ_COMMITTED
        upper_offset = partition.last_stable_offset if committed else partition.high_watermark
        size = min(left, asked.request.max_bytes)
        if offset >= upper_offset or (size <= 0 and not is_first):
            return _Located(asked, partition)
        located = log.locate(offset, size, upper_offset, at_least_one_batch=is_first)
        return _Located(asked, partition, located, offset)
    except ApiError as error:
        if asked.was_known and error.code is ErrorCode.unknown_topic_id:
            # As in Kafka, a session keeps the name of a topic id.
            error = ApiError(ErrorCode.unknown_topic_or_partition)
        return _Located(asked, error=error.without_stack())
    except OSError as error:
        # The lookup reads the log where the index has no entry.
        return _Located(asked, error=ApiError(ErrorCode.kafka_storage_error, str(error)))


def _is_enough(found: list[_Located], request: FetchRequest) -> bool:
    if request.max_wait_ms <= 0 or sum([each.size for each in found]) >= request.min_bytes:
        return True
    errors = [each.is_unknown for each in found if each.error is not None]
    return not all(errors) or len(errors) == len(found)


async def _wait(
    context: RequestContext, request: FetchRequest, session: FetchSession, found: list[_Located]
) -> list[_Located]:
    """A delayed fetch: locate again whenever a partition has changed, until there is enough data or time is up."""
    connection = context.connection
    if connection is not None and connection.is_half_closed:
        return found
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + min(request.max_wait_ms, MAX_WAIT_MS) / 1000
    partitions = [each.partition for each in found if each.partition is not None]
    unknown = sum([each.is_unknown for each in found])
    changed: asyncio.Future[bool] = loop.create_future()

    def wake(has_changed: bool = True) -> None:
        if not changed.done():
            changed.set_result(has_changed)

    timer = loop.call_at(deadline_s, wake, False)
    for partition in partitions:
        partition.readers.add(wake)
    if connection is not None:
        connection.on_disconnect[wake] = lambda: wake(False)
    if len(found) > ITEMS_PER_TURN:
        # While they were located in turns, some may have changed before this request was registered.
        wake()
    try:
        while await changed:
            # A change from here on is noticed, even while the partitions are being located.
            changed = loop.create_future()
            found = await _locate_all(context, request, session)
            # A partition that was deleted during the wait ends the wait.
            if _is_enough(found, request) or sum([each.is_unknown for each in found]) > unknown:
                break
            if loop.time() >= deadline_s or (connection is not None and connection.is_half_closed):
                break
    finally:
        timer.cancel()
        for partition in partitions:
            partition.readers.remove(wake)
        if connection is not None:
            connection.on_disconnect.pop(wake, None)
    return found


async def _response(
    context: RequestContext, request: FetchRequest, session: FetchSession, found: list[_Located]
) -> FetchResponse:
    topics: dict[TopicKey, TopicResponse] = {}
    sent_bytes = 0
    for count, each in enumerate(found, 1):
        if count % ITEMS_PER_TURN == 0:
            await asyncio.sleep(0)
        response = await _read(context, request, each)
        if session.should_send(request, each.asked, response):
            sent_bytes += each.size
            topic = topics.get(each.asked.topic)
            if topic is None:
                topic = topics[each.asked.topic] = TopicResponse(each.asked.topic, [])
            topic.partitions.append(response)
    context.services.traffic.fetched(sent_bytes)
    return FetchResponse(list(topics.values()), session_id=session.id)


async def _read(context: RequestContext, request: FetchRequest, found: _Located) -> PartitionResponse:
    if found.range is not None and found.range.file.is_closed:
        # Compaction or retention has removed the file from the log while earlier partitions were read.
        found = _locate(context, request, found.asked, found.size, is_first=True)
    number = found.asked.request.partition
    partition = found.partition
    if found.error is not None or partition is None:
        code = found.error.code if found.error is not None else ErrorCode.unknown_server_error
        return PartitionResponse(number, code.value)
    log = partition.log
    committed = request.isolation_level == READ_COMMITTED
    aborted: list[tuple[int, int]] | None = [] if committed else None
    records: Piece = b""
    if found.range is not None:
        try:
            if committed:
                # Before the read, which may wait: a compaction in the meantime drops the aborted transactions of the records it removes.
                end = partition.last_stable_offset
                aborted = log.aborted_transactions(found.fetch_offset, end, found.range)
            if found.range.file.would_block(found.range.position, found.range.size):
                records = await context.services.disk.read_later(*found.range)
            else:
                records = found.range.file.read(found.range.position, found.range.size)
        except ApiError as error:
            return PartitionResponse(number, error.code.value)
        except OSError:
            return PartitionResponse(number, ErrorCode.kafka_storage_error.value)
    return PartitionResponse(
        number,
        0,
        partition.high_watermark,
        partition.last_stable_offset,
        log.log_start_offset,
        aborted,
        records=records,
    )
