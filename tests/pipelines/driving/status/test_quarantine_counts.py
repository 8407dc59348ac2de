"""Rejected and late records, counted from their topics."""

from __future__ import annotations

from typing import Final

import pyarrow
import pytest
from confluent_kafka import Producer

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from catchment import Broker
from catchment.client.columns.schema import COLUMN_TYPES
from catchment.pipelines.driving.status.quarantine_counts import QuarantineCounts, queries_in
from catchment.spark.options.connection import Connection

TOPICS: Final = {"rejected": "city.quarantine", "late": "city.late"}
DEADLINE_S: Final = 120.0


def send(broker: Broker, topic: str, count: int, **headers: str) -> None:
    """In a transaction, as the queries write them."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"{topic} {headers}"})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(
            topic, b"x", headers=[(f"catchment.{name}", value.encode()) for name, value in headers.items()]
        )
    producer.commit_transaction(DEADLINE_S)


def test_records_of_this_run_are_counted_by_the_query_that_kept_them_aside() -> None:
    with Broker() as broker:
        for topic in TOPICS.values():
            broker.create_topic(topic, partitions=2)
        send(broker, "city.quarantine", 5, stage="clean")
        connection = Connection.read({"kafka.bootstrap.servers": broker.bootstrap_servers})
        with QuarantineCounts(connection, TOPICS) as aside:
            assert aside.of("clean") == {"rejected": 0, "late": 0}, "what is there already is of another run"
            send(broker, "city.quarantine", 3, stage="clean")
            send(broker, "city.quarantine", 2, stage="clean", sink="board")
            send(broker, "city.late", 4, stage="clean")
            aside.catch_up(DEADLINE_S)

            assert aside.of("clean") == {"rejected": 3, "late": 4}
            assert aside.of("outlet-board") == {"rejected": 2, "late": 0}


def test_a_pipeline_without_such_topics_asks_no_broker() -> None:
    # Nothing listens on port 1.
    with QuarantineCounts(Connection("127.0.0.1:1"), {}) as aside:
        aside.catch_up(DEADLINE_S)
        assert aside.of("clean") == {}


def test_a_record_that_came_with_such_headers_is_of_the_stage_that_wrote_last() -> None:
    came_with = {"key": "catchment.stage", "value": b"of another pipeline"}
    ours = {"key": "catchment.stage", "value": b"clean"}
    headers = pyarrow.array([[came_with, ours], None, [], [ours]], COLUMN_TYPES["headers"])

    assert queries_in(headers) == ["clean", "clean"]
