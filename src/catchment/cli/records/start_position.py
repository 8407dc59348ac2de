"""The position of `catchment consume --from` and similar options, as users write it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from catchment.cli.records.record_json import MAX_LONG
from catchment.cli.wire import explained

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NUMBER = re.compile(r"([-@]?)(\d+)", re.ASCII)
_FIELDS = {"": "offset", "-": "last", "@": "timestamp_ms"}
_AGE = re.compile(r"(\d+)(ms|s|m|h|d)")


class StartPosition(NamedTuple):
    """Exactly one of the fields is set: an offset (absolute or librdkafka's logical ones), a tail, or a time."""

    offset: int | None = None
    last: int | None = None
    timestamp_ms: int | None = None

    @classmethod
    def parse(cls, text: str, now_ms: int) -> "StartPosition":
        """`beginning`, `end`, an offset, `-N` for the last N, `@MS`, an age as `15m`, or an ISO 8601 time."""
        if text in ("beginning", "earliest"):
            return cls(offset=OFFSET_BEGINNING)
        if text in ("end", "latest"):
            return cls(offset=OFFSET_END)
        if number := _NUMBER.fullmatch(text):
            return cls(**{_FIELDS[number[1]]: _bounded(int(number[2]))})
        if age := _AGE.fullmatch(text):
            return cls(timestamp_ms=max(0, now_ms - int(age[1]) * _UNIT_MS[age[2]]))
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{text!r} is none of beginning, end, an offset, -N (the last N), @MILLISECONDS, an age such as 15m,"
                " or a time such as 2026-05-01T12:00:00Z"
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        # Of the moments within a millisecond, the first record at or after them is that of the next one.
        return cls(timestamp_ms=max(0, -((_EPOCH - moment) // timedelta(milliseconds=1))))

    def resolve(self, consumer: Any, topic: str, partitions: list[int], timeout_s: float) -> list[TopicPartition]:
        """The offset to start at in each partition; the cluster is asked where it depends on the log."""
        with explained(f"cannot find where to start in topic {topic}"):
            if self.timestamp_ms is not None:
                wanted = [TopicPartition(topic, partition, self.timestamp_ms) for partition in partitions]
                found: list[TopicPartition] = consumer.offsets_for_times(wanted, timeout=timeout_s)
                return [
                    TopicPartition(topic, topic_partition.partition, _or_end(topic_partition.offset))
                    for topic_partition in found
                ]
            if self.last is not None:
                return [self._tail(consumer, TopicPartition(topic, partition), timeout_s) for partition in partitions]
        assert self.offset is not None
        return [TopicPartition(topic, partition, self.offset) for partition in partitions]

    def _tail(self, consumer: Any, topic_partition: TopicPartition, timeout_s: float) -> TopicPartition:
        start, end = consumer.get_watermark_offsets(topic_partition, timeout=timeout_s)
        return TopicPartition(topic_partition.topic, topic_partition.partition, max(start, end - (self.last or 0)))


def _bounded(number: int) -> int:
    if number > MAX_LONG:
        raise ValueError(f"{number} is larger than any offset or timestamp")
    return number


def _or_end(offset: int) -> int:
    """No record is that new: the position is the end."""
    return OFFSET_END if offset < 0 else offset
