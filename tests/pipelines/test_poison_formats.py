"""Avro with and without frames, CSV, Protobuf and text: broken records are quarantined, and the others reach the lake."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.pipelines.city import City
from tests.pipelines.pressure import other_formats
from tests.pipelines.pressure.other_formats import AVRO, CSV, PROTO, Samples
from tests.spark.formats.registry_server import RegistryServer

from catchment.pipelines import Pipeline, lake, topic
from catchment.pipelines.lakes.lake_opening import open_lake

RIGHT: Final = 50
IN_A_LAKE: Final = ("avro", "protobuf")
"""What their values become in the JSON between stages is read again."""
NOW: Final = datetime.now(UTC)
_TIMEOUT_S: Final = 150.0


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    server = RegistryServer()
    yield server
    server.close()


def test_broken_records_of_every_format_are_quarantined(city: City, registry: RegistryServer) -> None:
    samples = {
        "avro": other_formats.avro(NOW, RIGHT),
        "framed": other_formats.framed_avro(NOW, RIGHT, registry, f"{city.name}-framed-value"),
        "csv": other_formats.csv(NOW, RIGHT),
        "protobuf": other_formats.protobuf(NOW, RIGHT),
        "text": other_formats.text(RIGHT),
    }
    formats: dict[str, dict[str, Any]] = {
        "avro": {"format": "avro", "schema": json.dumps(AVRO)},
        "framed": {"format": "avro", "registry": registry.url},
        "csv": {"format": "csv", "schema": CSV},
        "protobuf": {"format": "protobuf", "schema": PROTO, "message": "Reading"},
        "text": {"format": "text"},
    }
    for name, one in samples.items():
        send(city, name, one)

    city.drain(pipeline(city, formats))

    quarantined = city.rows(f"{city.name}.quarantine")
    for name, one in samples.items():
        column = "value" if name == "text" else "id"
        assert sorted(row[column] for row in city.values(f"{city.name}.{name}")) == sorted(one.right), name
        if name in IN_A_LAKE:
            assert sorted(open_lake(f"{city.folder}/{name}").read_arrow().column(column).to_pylist()) == sorted(
                one.right
            )
        aside = [row for row in quarantined if row["headers"]["catchment.topic"] == topic_of(city, name).encode()]
        assert len(aside) == len(one.broken), name
        by_offset = {int(row["headers"]["catchment.offset"]): row for row in aside}
        for offset, (value, reason) in enumerate(one.broken):
            row = by_offset[offset]
            assert row["value"] == value, (name, reason)
            assert row["headers"]["catchment.error"].decode().startswith(reason), (name, value, row["headers"])


def topic_of(city: City, name: str) -> str:
    return f"{city.name}-{name}"


def send(city: City, name: str, samples: Samples) -> None:
    """The broken ones first, so that an offset tells which."""
    topic_name = topic_of(city, name)
    admin = AdminClient({"bootstrap.servers": city.servers})
    admin.create_topics([NewTopic(topic_name, 1)])[topic_name].result(_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": city.servers})
    for value in (*(value for value, _ in samples.broken), *samples.right.values()):
        producer.produce(topic_name, value)
    assert producer.flush(_TIMEOUT_S) == 0


def pipeline(city: City, formats: Mapping[str, Mapping[str, Any]]) -> Pipeline:
    made = Pipeline(city.name, parallelism=1)
    for name, options in formats.items():
        times: dict[str, Any] = {} if name == "text" else {"event_time": "at", "lateness": "1 minute"}
        source = made.source(
            topic(topic_of(city, name), on_error="quarantine", **options), name=f"{name}-records", **times
        )
        stage = made.stage(name, source)
        if name in IN_A_LAKE:
            made.sink(stage, lake(f"{city.folder}/{name}"), name=name)
    return made
