"""Quix Streams and FastStream, each in an environment of its own: killed with their state, they lose and repeat nothing they should not."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.committed_reader import CommittedReader
from tests.compat.outside.toolchains import python_with
from tests.compat.program import APPLICATIONS, TIMEOUT_S, Program, until

# The first to run installs the packages.
pytestmark = pytest.mark.timeout(1500)
_PARTITIONS = 2
_AT_ONCE = 1000
_KEYS = 7
# Each is committed by itself.
_ORDERS = 200
_SECOND_MS = 1000
_EPOCH_MS = 1_700_000_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    with ChildBroker(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        names = ("readings", "totals", "windows", "orders", "invoices")
        for created in admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in names]).values():
            created.result(30)
        yield running


def application(name: str, script: str, arguments: list[str], directory: Path) -> Program:
    python = python_with(name)
    return Program([str(python), str(APPLICATIONS / name / script), *arguments], directory)


class Totals:
    """What a READ_COMMITTED consumer has seen of both results, key by key."""

    def __init__(self, totals: CommittedReader, windows: CommittedReader) -> None:
        self._totals, self._windows = totals, windows
        self.seen: dict[str, list[tuple[int, int]]] = {}
        self.windows: dict[tuple[str, int], list[int]] = {}

    def read(self) -> int:
        """How many readings are in the totals so far, and in the windows: the fewer of the two."""
        for record in self._totals.poll():
            assert record.key is not None
            row = json.loads(record.value)
            self.seen.setdefault(record.key.decode(), []).append((row["count"], row["total"]))
        for record in self._windows.poll():
            assert record.key is not None
            row = json.loads(record.value)
            self.windows.setdefault((record.key.decode(), row["start"]), []).append(row["value"])
        return min(sum(map(len, self.seen.values())), sum(map(len, self.windows.values())))


def test_totals_of_quix_streams_are_exact_though_it_loses_its_state_and_the_broker_is_killed(
    broker: ChildBroker, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    totals_job = application("quixstreams", "totals.py", [broker.bootstrap_servers, str(state)], tmp_path / "job")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    written = 0

    def write() -> None:
        nonlocal written
        for number in range(written, written + _AT_ONCE):
            value = json.dumps({"number": number, "value": number}).encode()
            timestamp_ms = _EPOCH_MS + number * _SECOND_MS // 10
            producer.produce("readings", value, f"key-{number % _KEYS}", timestamp=timestamp_ms)
        written += _AT_ONCE
        assert producer.flush(TIMEOUT_S) == 0

    with (
        CommittedReader(broker.bootstrap_servers, "totals", _PARTITIONS) as totals_reader,
        CommittedReader(broker.bootstrap_servers, "windows", _PARTITIONS) as windows_reader,
        totals_job,
    ):
        totals = Totals(totals_reader, windows_reader)

        def has_read(count: int) -> bool:
            if not totals_job.is_alive:
                # It ends when the broker is away for longer than a transaction may take; what watches over it starts it again.
                totals_job.start()
            return totals.read() >= count

        write()
        until(lambda: has_read(written), totals_job.tail)
        write()
        until(lambda: has_read(written - _AT_ONCE + 1), totals_job.tail)
        totals_job.kill()
        shutil.rmtree(state)
        write()
        until(lambda: has_read(written - _AT_ONCE + 1), totals_job.tail)
        broker.kill()
        broker.start()
        until(lambda: has_read(written), totals_job.tail)

    numbers = {f"key-{key}": range(key, written, _KEYS) for key in range(_KEYS)}
    expected = {key: [(count + 1, sum(own[: count + 1])) for count in range(len(own))] for key, own in numbers.items()}
    assert totals.seen == expected
    ten_seconds_ms = 10 * _SECOND_MS
    in_window = Counter(
        (key, (_EPOCH_MS + number * _SECOND_MS // 10) // ten_seconds_ms * ten_seconds_ms)
        for key, own in numbers.items()
        for number in own
    )
    assert totals.windows == {window: list(range(1, count + 1)) for window, count in in_window.items()}


@pytest.mark.parametrize("client", ["aiokafka", "confluent"])
def test_faststream_handles_each_record_and_repeats_only_what_a_kill_left_uncommitted(
    broker: ChildBroker, tmp_path: Path, client: str
) -> None:
    shop = application("faststream", "orders.py", [broker.bootstrap_servers, client], tmp_path / "shop")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})

    def write(numbers: range) -> None:
        for number in numbers:
            order = json.dumps({"number": number, "price": number}).encode()
            producer.produce("orders", order, partition=number % _PARTITIONS)
        assert producer.flush(TIMEOUT_S) == 0

    invoiced: list[int] = []
    with shop, CommittedReader(broker.bootstrap_servers, "invoices", _PARTITIONS) as reader:

        def is_invoiced(numbers: range) -> bool:
            rows = [json.loads(record.value) for record in reader.poll()]
            assert all(row["sum"] == 2 * row["number"] for row in rows)
            invoiced.extend(row["number"] for row in rows)
            return set(numbers) <= set(invoiced)

        def is_counted(numbers: range) -> bool:
            return is_invoiced(numbers) and set(map(str, numbers)) <= set(shop.lines())

        write(range(_ORDERS))
        shop.until(lambda: is_counted(range(_ORDERS)))
        assert sorted(invoiced) == list(range(_ORDERS)), "nothing has failed, so nothing may come twice"
        write(range(_ORDERS, 2 * _ORDERS))
        shop.until(lambda: is_invoiced(range(_ORDERS + 10)))
        shop.kill()
        shop.start()
        shop.until(lambda: is_counted(range(2 * _ORDERS)))
    assert set(invoiced) == set(range(2 * _ORDERS))
