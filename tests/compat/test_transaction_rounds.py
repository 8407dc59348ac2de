"""A transaction that begins while markers of the one before are being written fences no producer: `commit, begin, send, abort`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.committed_reader import CommittedReader
from tests.compat.program import APPLICATIONS, TIMEOUT_S, JavaProgram

_ROUNDS = 200
_TOPIC = "rounds"
_COMMITTED = [f"committed-{number}".encode() for number in range(_ROUNDS)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    with ChildBroker(tmp_path) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(30)
        yield running


def _assert_all_is_committed(broker: ChildBroker) -> None:
    """Exactly what was committed, in order: the last record comes after everything that could be wrong."""
    found: list[bytes] = []
    with CommittedReader(broker.bootstrap_servers, _TOPIC) as reader:
        while not found or found[-1] != _COMMITTED[-1]:
            found += [record.value for record in reader.poll()]
    assert found == _COMMITTED


def test_the_java_client_aborts_right_after_a_commit(broker: ChildBroker, tmp_path: Path) -> None:
    arguments = [broker.bootstrap_servers, _TOPIC, str(_ROUNDS)]
    with JavaProgram(str(APPLICATIONS / "AbortAfterCommit.java"), arguments, tmp_path / "rounds") as program:
        assert program.wait() == 0, program.tail()
        assert program.lines() == ["done"] * _ROUNDS
    _assert_all_is_committed(broker)


def test_librdkafka_aborts_right_after_a_commit(broker: ChildBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    for committed in _COMMITTED:
        producer.begin_transaction()
        producer.produce(_TOPIC, committed)
        producer.commit_transaction(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce(_TOPIC, b"aborted")
        producer.abort_transaction(TIMEOUT_S)
    _assert_all_is_committed(broker)
