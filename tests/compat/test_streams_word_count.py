"""A Kafka Streams application under exactly_once_v2: the broker and the application are killed, and every word is counted once."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.committed_reader import CommittedReader
from tests.compat.program import APPLICATIONS, TIMEOUT_S, JavaProgram

_PARTITIONS = 2
_LINES_AT_ONCE = 1000
_WORDS = [f"word-{number}" for number in range(50)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    with ChildBroker(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        for created in admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in ("lines", "counts")]).values():
            created.result(30)
        yield running


class Counts:
    """What a READ_COMMITTED consumer has seen of the counts, in the order of each partition."""

    def __init__(self, reader: CommittedReader) -> None:
        self._reader = reader
        self.seen: dict[str, list[int]] = {}

    def latest(self) -> dict[str, int]:
        """The last count of each word so far."""
        for record in self._reader.poll():
            assert record.key is not None
            self.seen.setdefault(record.key.decode(), []).append(struct.unpack(">q", record.value)[0])
        return {word: counts[-1] for word, counts in self.seen.items()}


class Text:
    """Random lines, and how often each word is in them."""

    def __init__(self, broker: ChildBroker, seed: int) -> None:
        self._random = Random(seed)
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        self.words: Counter[str] = Counter()

    def write(self, count: int) -> None:
        for _ in range(count):
            words = self._random.choices(_WORDS, k=5)
            self.words.update(words)
            self._producer.produce("lines", " ".join(words).encode(), partition=self._random.randrange(_PARTITIONS))
        assert self._producer.flush(TIMEOUT_S) == 0


def test_counts_are_exact_though_the_broker_and_the_application_are_killed(broker: ChildBroker, tmp_path: Path) -> None:
    arguments = [broker.bootstrap_servers, str(tmp_path / "state")]
    source = str(APPLICATIONS / "WordCount.java")
    application = JavaProgram(source, arguments, tmp_path / "application", needs_applications=True)
    text = Text(broker, seed=1)
    with application, CommittedReader(broker.bootstrap_servers, "counts", _PARTITIONS) as reader:
        counts = Counts(reader)
        text.write(_LINES_AT_ONCE)
        application.until(lambda: counts.latest() == text.words)

        text.write(_LINES_AT_ONCE)
        application.until(lambda: sum(counts.latest().values()) > 5 * _LINES_AT_ONCE)
        application.kill()
        text.write(_LINES_AT_ONCE)
        application.start()
        application.until(lambda: counts.latest() == text.words)

        text.write(_LINES_AT_ONCE)
        application.until(lambda: sum(counts.latest().values()) > 15 * _LINES_AT_ONCE)
        broker.kill()
        broker.start()
        text.write(_LINES_AT_ONCE)
        application.until(lambda: counts.latest() == text.words)
        assert application.stop() in (0, 143), application.tail()
    # A READ_COMMITTED consumer must not see a repeated count either, or one that goes back.
    assert all(seen == sorted(set(seen)) for seen in counts.seen.values())
    internal = set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=30).topics)
    assert {"word-count-counts-changelog", "word-count-counts-repartition"} <= internal
