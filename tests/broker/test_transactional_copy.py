"""A job that copies a topic in transactions, killed at random with its broker: every record arrives once, and in order.

Set CATCHMENT_COPY_KILLS for a longer run, such as 300.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker import copy_job
from tests.broker.child_broker import ChildBroker
from tests.broker.copy_watch import Follower, transactions_of
from tests.checkers.history import Poll, Transaction
from tests.checkers.log_checker import check
from tests.seeds import seed_from
from tests.waiting import wait_until

KILLS = int(os.environ.get("CATCHMENT_COPY_KILLS", "12"))
PARTITIONS = 3
RECORDS = 400 * KILLS * PARTITIONS
SOURCE, TARGET = "source", "target"
_PROGRESS_SECONDS = 90.0
_LONGEST_LIFE_S = 0.5
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": str(1024 * 1024),
}


class JobProcess:
    """The job, started again whenever it has ended; each life has a number."""

    def __init__(self, bootstrap_servers: str, directory: Path) -> None:
        self.notes_path = directory / "notes.jsonl"
        self.notes_path.touch()
        self._log_path = directory / "job.log"
        self._bootstrap_servers = bootstrap_servers
        self._lives = 0
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self._lives += 1
            arguments = [self._bootstrap_servers, SOURCE, TARGET, str(self._lives), str(self.notes_path)]
            with self._log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, copy_job.__file__, *arguments], stdout=log, stderr=log
                )

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-3000:]


def fill(bootstrap_servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.create_topics([NewTopic(SOURCE, PARTITIONS, 1), NewTopic(TARGET, PARTITIONS, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(SOURCE, str(number), partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


def wait_for_more(follower: Follower, job: JobProcess, at_least: int) -> None:
    deadline_s = time.monotonic() + _PROGRESS_SECONDS
    while follower.count < at_least:
        assert time.monotonic() < deadline_s, f"no progress beyond {follower.count} of {RECORDS}:\n{job.log_tail()}"
        job.ensure()
        time.sleep(0.01)


def sources(polls: list[Transaction]) -> dict[int, list[tuple[int, int]]]:
    """For each partition of the target, which records of the source its records are copies of."""
    found: dict[int, list[tuple[int, int]]] = {number: [] for number in range(PARTITIONS)}
    for poll in polls:
        for event in poll.events:
            assert isinstance(event, Poll)
            for _, value in event.records:
                partition, offset, _ = str(value).split(":")
                found[int(str(event.partition))].append((int(partition), int(offset)))
    return found


@pytest.mark.timeout(1500 + 15 * KILLS)
def test_every_record_is_copied_once_and_in_order_despite_kills(tmp_path: Path) -> None:
    random = Random(seed_from("CATCHMENT_COPY_SEED"))
    with ChildBroker(tmp_path, SETTINGS) as broker:
        fill(broker.bootstrap_servers)
        job = JobProcess(broker.bootstrap_servers, tmp_path)
        follower = Follower(broker.bootstrap_servers, TARGET, PARTITIONS, "follower")
        try:
            for _ in range(KILLS):
                wait_for_more(follower, job, min(follower.count + 1, RECORDS))
                # The moment of the kill is random, so there is no condition to wait for.
                time.sleep(random.uniform(0, _LONGEST_LIFE_S))
                victims = random.choice(["broker", "job", "both"])
                if victims != "job":
                    broker.kill()
                if victims != "broker":
                    job.kill()
                if victims != "job":
                    broker.start()
            wait_for_more(follower, job, RECORDS)
        finally:
            job.kill()
            follower.stop()
        again = Follower(broker.bootstrap_servers, TARGET, PARTITIONS, "again")
        wait_for_all(again)
        again.stop()
    history = [*transactions_of(job.notes_path), *follower.polls, *again.polls]
    assert check(history) == []
    expected = {number: [(number, offset) for offset in range(RECORDS // PARTITIONS)] for number in range(PARTITIONS)}
    assert sources(again.polls) == expected


def wait_for_all(follower: Follower) -> None:
    wait_until(
        lambda: follower.count >= RECORDS,
        lambda: f"only {follower.count} of {RECORDS} can be read again",
        _PROGRESS_SECONDS,
    )
