"""Typed columns through Spark itself: every type of every format reaches the JVM as it was written."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from tests.client.logs import CatchmentLogs
from tests.spark.formats.avro_samples import written
from tests.spark.formats.registry_server import RegistryServer, framed

EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": ["null", "int"]},
        {"name": "ratio", "type": "float"},
        {"name": "paid", "type": "boolean"},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 2}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": ["string", "null"]}]},
            },
        },
        {"name": "choice", "type": ["null", "string", "long"]},
    ],
}


def event(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "small": None if number % 2 else number,
        "ratio": number / 4,
        "paid": number % 3 == 0,
        "color": "BLUE" if number % 2 else "RED",
        "raw": bytes([number % 256, 1]),
        "price": Decimal(-number).scaleb(-2) - 10**20,
        "day": date(2024, 2, 29),
        "at": datetime(2024, 1, 1, 0, 0, number % 60, tzinfo=UTC),
        "tags": {"k": str(number), "none": None} if number % 5 else {},
        "lines": [{"sku": "a" * count} if count else {"sku": None} for count in range(number % 4)],
        "choice": [None, "text", number][number % 3],
    }


def shown(row: Row) -> dict[str, Any]:
    """A row in the form of `event`; which branch of the union was taken shows in the type."""
    value = row.asDict(recursive=True)
    value["at"] = value["at"].astimezone(UTC)
    value["raw"] = bytes(value["raw"])
    choice = value["choice"]
    value["choice"] = None if choice is None else choice["member0"] or choice["member1"]
    return value


def read(spark: SparkSession, logs: CatchmentLogs, topic: str, **options: str) -> DataFrame:
    servers = {"kafka.bootstrap.servers": logs.bootstrap_servers, "subscribe": topic}
    return spark.read.format("catchment").options(**servers, **options).load()


def test_every_avro_type_arrives_as_it_was_written(
    spark: SparkSession, catchment_logs: CatchmentLogs, registry: RegistryServer
) -> None:
    topic = catchment_logs.topic()
    schema_id = registry.register(f"{topic}-value", EVENT)
    events = [event(number) for number in range(1000)]
    catchment_logs.fill(topic, [framed(schema_id, written(EVENT, one)) for one in events])
    frame = read(spark, catchment_logs, topic, valueFormat="avro", schemaRegistry=registry.url, keyFormat="string")
    rows = frame.orderBy("offset").select("key", "value.*").collect()
    assert [shown(row) for row in rows] == [{"key": str(one["id"]), **one} for one in events]


def test_protobuf_arrives_with_intervals_maps_and_unsigned_numbers(
    spark: SparkSession, catchment_logs: CatchmentLogs
) -> None:
    schema = """syntax = "proto3"; import "google/protobuf/duration.proto"; enum E { A = 0; B = 1; }
    message M { google.protobuf.Duration took = 1; uint64 big = 2; map<int32, E> states = 3; repeated string names = 4; }"""
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, [b"\x0a\x02\x08\x5a\x10" + b"\xff" * 9 + b"\x01\x1a\x04\x08\x02\x10\x01\x22\x01x", b""])
    frame = read(spark, catchment_logs, topic, valueFormat="protobuf", valueSchema=schema)
    texts = frame.orderBy("offset").selectExpr(
        "string(value.took)", "string(value.big)", "to_json(value.states)", "value.names"
    )
    assert [tuple(row) for row in texts.collect()] == [
        ("INTERVAL '0 00:01:30' DAY TO SECOND", str(2**64 - 1), '{"2":"B"}', ["x"]),
        (None, None, "{}", []),
    ]


def test_a_stream_goes_on_past_records_that_do_not_decode(
    spark: SparkSession, catchment_logs: CatchmentLogs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, [json.dumps({"id": 1, "at": "2024-01-01T00:00:00Z"}).encode(), b"{oops", b'{"id": "x"}'])
    stream = (
        spark.readStream.format("catchment")
        .options(**{"kafka.bootstrap.servers": catchment_logs.bootstrap_servers, "subscribe": topic})
        .options(startingOffsets="earliest", valueFormat="json", onDecodeError="null")
        .options(valueSchema="id bigint, at timestamp, m map<string,int>")
        .load()
    )
    query = (
        stream.selectExpr("offset", "value.id", "valueError", "string(valueBytes) AS bytes")
        .writeStream.format("memory")
        .queryName("typed_stream")
        .option("checkpointLocation", str(tmp_path_factory.mktemp("checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    rows = spark.table("typed_stream").orderBy("offset").collect()
    assert [(row.id, row.bytes) for row in rows] == [(1, None), (None, "{oops"), (None, '{"id": "x"}')]
    assert rows[2].valueError == "$.id is a string, not a whole number"


def test_a_query_fails_with_the_place_of_the_record(spark: SparkSession, catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, [b"fine", b"\xff"])
    with pytest.raises(
        PythonException, match=rf"topic {topic}, partition 0, offset 1 does not decode: byte 0 is not UTF-8"
    ):
        read(spark, catchment_logs, topic, valueFormat="string").collect()
