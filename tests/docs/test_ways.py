"""The ways on the architecture page are true: a request is really sent, and the named functions are called in their order."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache, partial, reduce
from pathlib import Path
from types import FrameType

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from catchment import Broker

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
LINES = 200
TIMEOUT_S = 1200
AFTERWARDS_S = 10.0
PACKAGE = "catchment."
NAME = re.compile(r"`([a-z_.]+:[A-Za-z_.]+)`")
PIPELINE = """
from catchment.pipelines import Pipeline, store, topic

fridges = Pipeline("fridges")
readings = fridges.source(
    topic("readings", schema="fridge string, at timestamp, celsius double"), event_time="at", lateness="1 minute"
)
warm = fridges.stage("warm", readings, sql="SELECT fridge, at, celsius FROM readings WHERE celsius > 8")
fridges.sink(warm, store("sqlite:///fridges.db", table="warm"))
"""
# Python imports this module at its start in every process of the pipeline; each function is recorded when it is first called.
RECORDER = """
import os, sys, threading, time

seen, file = set(), os.open(os.environ["WAYS_RECORDED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def record(frame, event, argument):
    if event == "call" and frame.f_code not in seen:
        seen.add(frame.f_code)
        name = frame.f_globals.get("__name__") or ""
        if name.startswith("catchment."):
            os.write(file, f"{time.monotonic_ns()} {name[10:]}:{frame.f_code.co_qualname}\\n".encode())


threading.setprofile(record)
sys.setprofile(record)
"""


@cache
def ways() -> dict[str, list[str]]:
    """The functions of each way, as `module:function`, in the order of the page."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## The ways")[2].partition("\n## ")[0]
    parts = re.split(r"^### (.*)\n", section, flags=re.MULTILINE)[1:]
    return {title: NAME.findall(text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


def test_the_page_is_one_page_and_has_the_five_ways() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= LINES
    assert list(ways()) == ["A produce", "A fetch", "An offset commit", "A transaction", "An event through a pipeline"]
    assert all(len(names) >= 6 for names in ways().values())


@pytest.mark.parametrize("title", ways())
def test_every_function_of_a_way_exists(title: str) -> None:
    for name in ways()[title]:
        module, _, function = name.partition(":")
        found = reduce(getattr, function.split("."), importlib.import_module(PACKAGE + module))
        assert callable(found) or isinstance(found, property), name


class Recorder:
    """The calls of functions of ours in a broker's threads, while it is recording."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_recording = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self.is_recording and event == "call":
            module = frame.f_globals.get("__name__") or ""
            if module.startswith(PACKAGE):
                self.calls.append(f"{module.removeprefix(PACKAGE)}:{frame.f_code.co_qualname}")

    def missing(self, names: list[str], work: Callable[[], object]) -> list[str]:
        """The names that are not called in their order; the last calls may come after the work has returned."""
        self.calls.clear()
        self.is_recording = True
        work()
        deadline_s = time.monotonic() + AFTERWARDS_S
        while not_called(names, self.calls) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        self.is_recording = False
        return not_called(names, self.calls)


def not_called(names: list[str], calls: list[str]) -> list[str]:
    """The first name that does not follow those before it, and the ones after it."""
    rest = iter(calls.copy())
    for number, name in enumerate(names):
        if name not in rest:
            return names[number:]
    return []


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def broker(recorder: Recorder) -> Iterator[Broker]:
    running = Broker()
    threading.setprofile(recorder)
    try:
        running.start()
    finally:
        threading.setprofile(None)
    running.create_topic("orders")
    yield running
    running.stop()


def settings(broker: Broker) -> dict[str, str | int]:
    """A client that prints nothing when the broker stops before it."""
    return {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}


def send(producer: Producer, value: bytes) -> None:
    producer.produce("orders", value)
    assert producer.flush(30) == 0


def test_a_produce_goes_its_way(broker: Broker, recorder: Recorder) -> None:
    producer = Producer(settings(broker))
    send(producer, b"one")
    assert recorder.missing(ways()["A produce"], lambda: send(producer, b"two")) == []


def test_a_fetch_goes_its_way(broker: Broker, recorder: Recorder) -> None:
    send(Producer(settings(broker)), b"one")
    consumer = Consumer({**settings(broker), "group.id": "readers"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    assert recorder.missing(ways()["A fetch"], lambda: consumer.poll(30)) == []
    consumer.close()


def test_an_offset_commit_goes_its_way(broker: Broker, recorder: Recorder) -> None:
    send(Producer(settings(broker)), b"one")
    consumer = Consumer({**settings(broker), "group.id": "readers"})
    commit = partial(consumer.commit, offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    assert recorder.missing(ways()["An offset commit"], commit) == []
    consumer.close()


def test_a_transaction_goes_its_way(broker: Broker, recorder: Recorder) -> None:
    producer = Producer({**settings(broker), "transactional.id": "till"})
    producer.init_transactions()

    def transaction() -> None:
        producer.begin_transaction()
        send(producer, b"one")
        producer.commit_transaction()

    assert recorder.missing(ways()["A transaction"], transaction) == []


def test_an_event_goes_its_way_through_a_pipeline(tmp_path: Path) -> None:
    for name in ("pyspark", "pydantic"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'catchment-streaming[pipelines]'")
    (tmp_path / "fridges.py").write_text(PIPELINE)
    (tmp_path / "sitecustomize.py").write_text(RECORDER)
    recorded = tmp_path / "calls"
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    with Broker() as broker:
        broker.create_topic("readings")
        producer = Producer(settings(broker))
        producer.produce("readings", json.dumps({"fridge": "fish", "at": "2025-05-01T12:00:00Z", "celsius": 9.0}))
        assert producer.flush(30) == 0
        command = [sys.executable, "-m", "catchment.cli", "pipeline", "run", "fridges.py", "--available-now"]
        done = subprocess.run(
            [*command, "-b", broker.bootstrap_servers, "--home", str(tmp_path / "home")],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "WAYS_RECORDED": str(recorded)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    in_order = sorted(recorded.read_text().splitlines(), key=lambda line: int(line.split()[0]))
    assert not_called(ways()["An event through a pipeline"], [line.split()[1] for line in in_order]) == []
