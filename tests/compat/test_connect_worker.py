"""A distributed Kafka Connect worker, as Apache Kafka ships it, keeps its guarantees on a Catchment broker.

It uses much of a broker: three compacted topics that it creates, a group with a protocol of its own, offsets of sinks.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.committed_reader import CommittedReader
from tests.compat.java_tool import java_tool
from tests.compat.program import JavaProgram

from catchment.ports.network import free_port

_TOPIC = "lines"
_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


class Worker:
    """A worker and its REST interface."""

    def __init__(self, broker: ChildBroker, directory: Path, **settings: str) -> None:
        self._address = f"http://127.0.0.1:{free_port()}"
        properties = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "connect-workers",
            "key.converter": _CONVERTER,
            "value.converter": _CONVERTER,
            "listeners": self._address,
            # A worker that was killed is missed sooner than by default.
            **{f"{owner}session.timeout.ms": "6000" for owner in ("", "consumer.")},
            **{f"{owner}heartbeat.interval.ms": "1000" for owner in ("", "consumer.")},
            "plugin.discovery": "service_load",
            "offset.flush.interval.ms": "500",
            "offset.storage.partitions": "3",
            **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        path = directory / "worker.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self.program = JavaProgram(main, [str(path)], directory / "worker", needs_applications=True)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            self._address + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def is_ready(self) -> bool:
        try:
            return isinstance(self.ask("GET", "/connectors"), list)
        except OSError:
            # It does not listen yet, or says that it is still starting.
            return False

    def create(self, name: str, kind: str, **settings: str) -> None:
        """Retry until the worker has joined a group that can run the connector."""
        body = {"connector.class": f"FileStream{kind}", "tasks.max": "1", **settings}

        def is_created() -> bool:
            try:
                self.ask("PUT", f"/connectors/{name}/config", body)
            except urllib.error.HTTPError:
                # The group is being rebalanced, or the broker's topics are not there yet.
                return False
            return True

        self.program.until(is_created)

    def is_running(self, name: str) -> bool:
        try:
            status = self.ask("GET", f"/connectors/{name}/status")
        except urllib.error.HTTPError:
            return False
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        assert "FAILED" not in states, status
        return states == ["RUNNING", "RUNNING"]

    def sink_offset(self, name: str) -> int:
        """How far a sink of one partition has committed."""
        (partition,) = self.ask("GET", f"/connectors/{name}/offsets")["offsets"]
        offset: int = partition["offset"]["kafka_offset"]
        return offset


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    with ChildBroker(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(30)
        yield running


def append(path: Path, numbers: range) -> None:
    with path.open("a") as file:
        file.writelines(f"{number}\n" for number in numbers)


def numbers_in(path: Path) -> list[int]:
    """The whole lines of a file; the last may be half written."""
    return [int(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def assert_nothing_is_skipped(found: list[int], count: int) -> None:
    """At least once: the numbers may go back and then repeat, but none is skipped."""
    assert found[0] == 0
    assert all(later <= earlier + 1 for earlier, later in pairwise(found))
    assert max(found) == count - 1


def test_a_source_and_a_sink_lose_nothing_when_broker_and_worker_are_killed(
    broker: ChildBroker, tmp_path: Path
) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    append(source, range(1000))
    sink.touch()
    worker = Worker(broker, tmp_path)

    def wait_for(count: int) -> None:
        worker.program.until(lambda: count - 1 in numbers_in(sink)[-1000:])

    with worker.program:
        worker.program.until(worker.is_ready)
        worker.create("source", "Source", file=str(source), topic=_TOPIC)
        worker.create("sink", "Sink", file=str(sink), topics=_TOPIC)
        worker.program.until(lambda: worker.is_running("source") and worker.is_running("sink"))
        wait_for(1000)

        append(source, range(1000, 2000))
        broker.kill()
        broker.start()
        wait_for(2000)

        append(source, range(2000, 3000))
        worker.program.kill()
        worker.program.start()
        wait_for(3000)
        assert worker.is_running("source")
        assert worker.is_running("sink")
        assert_nothing_is_skipped(numbers_in(sink), 3000)
        worker.program.until(lambda: worker.sink_offset("sink") >= 3000)
        worker.ask("DELETE", "/connectors/source")
        worker.program.until(lambda: worker.ask("GET", "/connectors") == ["sink"])
        assert worker.program.stop() in (0, 143)

    listed = java_tool("GroupsCommand", "--bootstrap-server", broker.bootstrap_servers, "--list").decode()
    assert re.search(r"connect-workers\s+Classic\s+connect\s", listed)
    assert re.search(r"connect-sink\s+Classic\s+consumer\s", listed)


def test_a_source_writes_each_line_exactly_once_if_the_worker_is_configured_so(
    broker: ChildBroker, tmp_path: Path
) -> None:
    source = tmp_path / "source.txt"
    append(source, range(1000))
    worker = Worker(broker, tmp_path, exactly_once_source_support="enabled")
    found: list[int] = []

    with worker.program, CommittedReader(broker.bootstrap_servers, _TOPIC) as copied:

        def has_read(count: int) -> bool:
            found.extend(int(record.value) for record in copied.poll())
            return len(found) >= count

        worker.program.until(worker.is_ready)
        worker.create("source", "Source", file=str(source), topic=_TOPIC)
        worker.program.until(lambda: worker.is_running("source"))
        worker.program.until(lambda: has_read(1000))
        append(source, range(1000, 2000))
        broker.kill()
        broker.start()
        worker.program.until(lambda: has_read(2000))
        append(source, range(2000, 3000))
        worker.program.kill()
        worker.program.start()
        worker.program.until(lambda: has_read(3000))
    assert found == list(range(3000))
