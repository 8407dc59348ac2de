"""A transactional copy with the Java clients: killed, fenced and without its broker for a while, it copies each record exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.committed_reader import CommittedReader
from tests.compat.program import APPLICATIONS, TIMEOUT_S, JavaProgram

_PARTITIONS = 2
_AT_ONCE = 1000
_FENCED = 3


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
    }
    with ChildBroker(tmp_path, settings) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        for created in admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in ("source", "copy")]).values():
            created.result(30)
        yield running


class Source:
    """Numbers, alternating between the partitions."""

    def __init__(self, broker: ChildBroker) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        self.count = 0

    def write(self) -> None:
        for number in range(self.count, self.count + _AT_ONCE):
            self._producer.produce("source", str(number).encode(), partition=number % _PARTITIONS)
        self.count += _AT_ONCE
        assert self._producer.flush(TIMEOUT_S) == 0


class Copy:
    """What a READ_COMMITTED consumer has found in the copy, by partition and in order."""

    def __init__(self, reader: CommittedReader) -> None:
        self._reader = reader
        self.found: list[list[int]] = [[] for _ in range(_PARTITIONS)]

    def count(self) -> int:
        for record in self._reader.poll():
            self.found[record.partition].append(int(record.value))
        return sum(map(len, self.found))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_each_record_is_copied_once_and_in_order(broker: ChildBroker, tmp_path: Path, protocol: str) -> None:
    def job(name: str) -> JavaProgram:
        source_file = str(APPLICATIONS / "TransactionalCopy.java")
        return JavaProgram(source_file, [broker.bootstrap_servers, protocol], tmp_path / name)

    source = Source(broker)
    with job("first") as first, CommittedReader(broker.bootstrap_servers, "copy", _PARTITIONS) as reader:
        copy = Copy(reader)
        source.write()
        first.until(lambda: copy.count() == source.count)
        source.write()
        first.until(lambda: copy.count() > source.count - _AT_ONCE)
        first.kill()
        first.start()
        source.write()
        first.until(lambda: copy.count() > source.count - _AT_ONCE // 2)
        broker.kill()
        broker.start()
        first.until(lambda: copy.count() == source.count)
        with job("second") as second:
            second.until(lambda: "ready" in second.lines())
            source.write()
            assert first.wait() == _FENCED, first.tail()
            second.until(lambda: copy.count() >= source.count)
            second.kill()
    assert copy.found == [list(range(number, source.count, _PARTITIONS)) for number in range(_PARTITIONS)]
    assert "aborted" in first.output
