"""The answer to a Fetch, read without copying records: they are views into the body that was received.

A general codec would copy each partition's records once more, and they are nearly all of what a reader receives.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from catchment.protocol.fetch import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS, PartitionAnswer, TopicAnswer
from catchment.protocol.produce import TopicKey
from catchment.protocol.wire import WireReader

_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_READ_REPLICA: Final = 11

_ERROR_AND_SESSION: Final = Struct(">hi")
_PARTITION: Final = Struct(">ihqq")
_TRANSACTION: Final = Struct(">qq")


class FetchAnswer(NamedTuple):
    """What a broker answered to one Fetch."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    """The session to go on with; 0 if the broker keeps none."""
    topics: list[TopicAnswer]


def decode_answer(body: bytes | memoryview, version: int) -> FetchAnswer:
    """Read a response body at this version; MalformedRequest if the bytes are not one."""
    reader = WireReader(memoryview(body), 0, flexible=version >= FIRST_FLEXIBLE)
    throttle_time_ms = reader.i32()
    error_code, session_id = reader.unpack(_ERROR_AND_SESSION) if version >= _FIRST_WITH_SESSIONS else (0, 0)
    topics = []
    for _ in range(reader.array_length(3)):
        topic: TopicKey = reader.uuid() if version >= FIRST_WITH_TOPIC_IDS else reader.string()
        topics.append(TopicAnswer(topic, [_partition(reader, version) for _ in range(reader.array_length(20))]))
        reader.skip_tags()
    return FetchAnswer(throttle_time_ms, error_code, session_id, topics)


def _partition(reader: WireReader, version: int) -> PartitionAnswer:
    partition, error_code, high_watermark, last_stable_offset = reader.unpack(_PARTITION)
    log_start_offset = reader.i64() if version >= _FIRST_WITH_LOG_START else -1
    aborted = []
    for _ in range(reader.array_length(_TRANSACTION.size)):
        producer_id, first_offset = reader.unpack(_TRANSACTION)
        aborted.append((producer_id, first_offset))
        reader.skip_tags()
    preferred_read_replica = reader.i32() if version >= _FIRST_WITH_READ_REPLICA else -1
    records = reader.nullable_bytes()
    # The tags tell followers where logs part, and where the leader went; readers ask the metadata for that.
    reader.skip_tags()
    return PartitionAnswer(
        partition,
        error_code,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        preferred_read_replica,
        b"" if records is None else records,
    )
