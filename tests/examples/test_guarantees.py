"""The read guarantees: each example is killed at its worst moment, and what came out is counted.

That the count would find a loss or a repeat is shown by the two guarantees that allow one: the loss, and the repeat, are
there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.examples.guarantee_runs import (
    ALL,
    PARTITIONS,
    Place,
    Run,
    fill,
    is_in_order,
    lost,
    places_of_values,
    repeated,
)
from tests.examples.postgres_server import PostgresServer

from catchment.testing.embedded import Broker

DEATHS = 3


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        fill(running)
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def postgresql(server: PostgresServer) -> str:
    """The address of an empty database."""
    return server.new_database()


def lines(path: Path) -> list[Place]:
    if not path.exists():
        return []
    return [(int(partition), int(offset)) for partition, offset, _ in map(str.split, path.read_text().splitlines())]


def rows(path: Path) -> list[Place]:
    if not path.exists():
        return []
    store = sqlite3.connect(path)
    try:
        found = store.execute("SELECT partition, record_offset FROM results ORDER BY rowid").fetchall()
    except sqlite3.OperationalError:
        # The example has not made its table yet, or holds it at this moment.
        return []
    finally:
        store.close()
    return found


def test_at_most_once_loses_what_was_committed_and_not_done_and_repeats_nothing(broker: Broker, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run = Run(broker, "at_most_once.py", str(output), tmp_path / "log")
    for _ in range(DEATHS):
        run.die("after Consumer.commit")
    seen = run.finish(lambda: lines(output))
    assert repeated(seen) == []
    assert len(lost(seen)) == DEATHS


def test_at_least_once_repeats_what_was_done_and_not_committed_and_loses_nothing(
    broker: Broker, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    run = Run(broker, "at_least_once.py", str(output), tmp_path / "log")
    for _ in range(DEATHS):
        run.die("before Consumer.commit")
    seen = run.finish(lambda: lines(output))
    assert lost(seen) == []
    assert len(seen) == len(ALL) + DEATHS


def test_effectively_once_repeats_some_work_without_a_visible_effect(broker: Broker, tmp_path: Path) -> None:
    output = tmp_path / "out.sqlite"
    run = Run(broker, "effectively_once.py", str(output), tmp_path / "log")
    for moment in ("before Consumer.commit", "after deliver", "after Consumer.commit"):
        run.die(moment)
    seen = run.finish(lambda: rows(output))
    assert sorted(seen) == ALL


@pytest.mark.parametrize(
    ("moment", "calls"),
    [("before deliver", 4), ("after deliver", 4), *[("after sqlite3.Connection.execute", calls) for calls in (9, 10)]],
    ids=["before", "after", "between-result-and-position", "between-position-and-commit"],
)
def test_exactly_once_with_positions_in_sqlite(broker: Broker, tmp_path: Path, moment: str, calls: int) -> None:
    output = tmp_path / "out.sqlite"
    run = Run(broker, "exactly_once_sqlite.py", str(output), tmp_path / "log")
    for _ in range(DEATHS):
        run.die(moment, calls)
    seen = run.finish(lambda: rows(output))
    assert sorted(seen) == ALL
    assert is_in_order(seen)


@pytest.mark.parametrize(
    ("moment", "calls"),
    [("before deliver", 4), ("after deliver", 4), *[("after psycopg.Connection.execute", calls) for calls in (12, 13)]],
    ids=["before", "after", "between-result-and-position", "between-position-and-commit"],
)
def test_exactly_once_with_positions_in_postgresql(
    broker: Broker, postgresql: str, tmp_path: Path, moment: str, calls: int
) -> None:
    run = Run(broker, "exactly_once_postgres.py", postgresql, tmp_path / "log")
    for _ in range(DEATHS):
        run.die(moment, calls)

    def seen() -> list[Place]:
        with psycopg.connect(postgresql) as store:
            return store.execute("SELECT partition, record_offset FROM results ORDER BY ctid").fetchall()

    found = run.finish(seen)
    assert sorted(found) == ALL
    assert is_in_order(found)


@pytest.mark.parametrize(
    "moment",
    [
        "after Producer.begin_transaction",
        "before Producer.send_offsets_to_transaction",
        "before Producer.commit_transaction",
        "after Producer.commit_transaction",
    ],
)
def test_exactly_once_in_a_kafka_transaction(broker: Broker, tmp_path: Path, moment: str) -> None:
    broker.create_topic("results", PARTITIONS)
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    reader.assign([TopicPartition("results", number, 0) for number in range(PARTITIONS)])
    values: list[str] = []

    def seen() -> list[Place]:
        values.extend((one.value() or b"").decode() for one in reader.consume(500, timeout=0.1) if not one.error())
        return places_of_values(values)

    run = Run(broker, "exactly_once_kafka.py", "results", tmp_path / "log")
    for _ in range(DEATHS):
        run.die(moment, calls=2)
    found = run.finish(seen)
    reader.close()
    assert sorted(found) == ALL
    assert is_in_order(found)
