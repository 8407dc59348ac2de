"""Random topics with all that a log may hold, planned by Hypothesis and written by confluent-kafka, a writer that is not ours."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from hypothesis import strategies as st
from tests.client.logs import Logs
from tests.waiting import wait_until

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SERVER_SETTINGS: Final = {"log.cleaner.backoff.ms": "100"}
"""What makes a broker compact while a test waits."""
_COMPACTED: Final = {"cleanup_policy": "compact", "segment_ms": "10000", "min_cleanable_dirty_ratio": "0.01"}
_SECONDS: Final = 60.0
# Segments end by the times of their records, and times lie in the past: brokers refuse those of the future.
_SEGMENT_STEP_MS: Final = 20_000
_LONG_AGO_MS: Final = 100_000_000
_numbers = itertools.count(1)

End = Literal["plain", "commit", "abort", "open"]


Size = int | None
"""Of bytes that are made when they are written, or of a null: a plan with its bytes in it would be too large to show."""


@dataclass(frozen=True)
class Row:
    key: Size
    value: Size
    headers: tuple[tuple[str, Size], ...]
    age_ms: int


@dataclass(frozen=True)
class Write:
    """Rows that go to one partition together."""

    partition: int
    codec: str
    rows: tuple[Row, ...]
    end: End
    repeats: int = 1
    """How often the rows are written, one round behind the other."""


@dataclass(frozen=True)
class TopicPlan:
    partitions: int
    kind: Literal["create time", "append time", "compacted"]
    writes: tuple[Write, ...]
    cut: int
    """How many offsets of partition 0 are deleted from its front."""


_sizes: st.SearchStrategy[Size] = st.sampled_from([None, 0, 1, 7, 30, 200, 3000])
_header = st.tuples(st.sampled_from(["", "a", "trace", "ключ"]), _sizes)
_rows = st.lists(
    st.builds(Row, _sizes, _sizes, st.lists(_header, max_size=3).map(tuple), st.integers(0, 99_000_000)),
    min_size=1,
    max_size=8,
).map(tuple)
_ends: st.SearchStrategy[End] = st.sampled_from(["plain", "plain", "commit", "abort", "abort", "open"])


@st.composite
def topic_plans(draw: st.DrawFn) -> TopicPlan:
    partitions = draw(st.integers(1, 3))
    write = st.builds(
        Write, st.integers(0, partitions - 1), st.sampled_from(CODECS), _rows, _ends, st.sampled_from([1, 1, 50])
    )
    return TopicPlan(
        partitions,
        draw(st.sampled_from(["create time", "create time", "append time", "compacted"])),
        tuple(draw(st.lists(write, min_size=1, max_size=5))),
        draw(st.integers(0, 3)),
    )


class Filler:
    """Carries plans out on a server. What is left open stays so until `close`."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._producers: dict[tuple[str, bool], Producer] = {}
        self._open: list[Producer] = []
        self._random = Random(1)

    def fill(self, plans: Iterable[TopicPlan]) -> list[str]:
        """The names of the new topics."""
        made = [(self._create(plan), plan) for plan in plans]
        for topic, plan in made:
            for write in plan.writes:
                self._write(topic, write, plan.kind == "compacted")
        for topic, plan in made:
            if plan.kind == "compacted":
                self._wait_for_compaction(topic, plan.partitions)
            elif plan.cut:
                self._cut(topic, plan.cut)
        return [topic for topic, _ in made]

    def close(self) -> None:
        for producer in self._open:
            producer.abort_transaction(_SECONDS)

    def _create(self, plan: TopicPlan) -> str:
        if plan.kind != "compacted":
            kind = "LogAppendTime" if plan.kind == "append time" else "CreateTime"
            return self._logs.topic(plan.partitions, message_timestamp_type=kind, retention_ms="-1")
        topic = self._logs.topic(plan.partitions, **_COMPACTED)
        # The same key in segment after segment: of these, compaction must drop the first.
        for partition in range(plan.partitions):
            for step in range(3):
                row = Row(5, 1, (), _LONG_AGO_MS + (3 - step) * _SEGMENT_STEP_MS)
                self._write(topic, Write(partition, "none", (row,), "plain"), True)
        return topic

    def _write(self, topic: str, write: Write, needs_keys: bool) -> None:
        producer = self._producer(write.codec, write.end)
        if write.end != "plain":
            producer.begin_transaction()
        now_ms = time.time_ns() // 1_000_000
        for row in write.rows * write.repeats:
            producer.produce(
                topic,
                self._bytes(row.value),
                key=_key(0 if needs_keys and row.key is None else row.key),
                partition=write.partition,
                headers=[(name, self._bytes(size)) for name, size in row.headers],
                timestamp=now_ms - row.age_ms,
            )
        assert producer.flush(_SECONDS) == 0
        if write.end == "commit":
            producer.commit_transaction(_SECONDS)
        elif write.end == "abort":
            producer.abort_transaction(_SECONDS)
        elif write.end == "open":
            self._open.append(producer)

    def _bytes(self, size: Size) -> bytes | None:
        return None if size is None else self._random.randbytes(size)

    def _producer(self, codec: str, end: End) -> Producer:
        name = (codec, end != "plain")
        producer = self._producers.get(name)
        if producer is None:
            settings = {"bootstrap.servers": self._logs.bootstrap_servers, "compression.type": codec, "linger.ms": 1}
            if end != "plain":
                settings |= {"transactional.id": f"random-{next(_numbers)}", "transaction.timeout.ms": 600_000}
            producer = Producer(settings)
            if end != "plain":
                producer.init_transactions(_SECONDS)
            self._producers[name] = producer
        if end == "open":
            del self._producers[name]
        return producer

    def _cut(self, topic: str, offset: int) -> None:
        end = max((message.offset() or 0 for message in self._logs.messages(topic)), default=-1) + 1
        admin = AdminClient({"bootstrap.servers": self._logs.bootstrap_servers})
        for future in admin.delete_records([TopicPartition(topic, 0, min(offset, end))]).values():
            future.result(_SECONDS)

    def _wait_for_compaction(self, topic: str, partitions: int) -> None:
        def is_compacted() -> bool:
            offsets = (
                message.offset() for number in range(partitions) for message in self._logs.messages(topic, number)
            )
            return 0 not in offsets

        wait_until(is_compacted, f"{topic} is not compacted", _SECONDS)


def _key(size: Size) -> bytes | None:
    """Derived from the size alone, so that keys repeat."""
    return None if size is None else Random(size).randbytes(size)
