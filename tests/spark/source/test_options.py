"""The options of the source: what each may be, what they are by default, and which do not go together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from catchment.client.errors import SettingsError
from catchment.client.offsets import EARLIEST, LATEST
from catchment.spark.source.noted_offsets import NotedOffsets
from catchment.spark.source.options import SOURCE_OPTIONS, SourceOptions
from catchment.spark.source.positions import AtOffsets, AtTimes, to_json
from catchment.spark.source.topic_selection import TopicSelection

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "spark-source.md"
SUBSCRIBED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}


def read(streaming: bool = True, **options: Any) -> SourceOptions:
    return SourceOptions.read(SUBSCRIBED | {name: str(value) for name, value in options.items()}, streaming=streaming)


def test_defaults_are_those_of_sparks_own_source() -> None:
    stream, batch = read(), read(streaming=False)
    assert stream.start == AtOffsets(LATEST)
    assert (batch.start, batch.end) == (AtOffsets(EARLIEST), AtOffsets(LATEST))
    for options in (stream, batch):
        assert options.fail_on_data_loss
        assert not options.include_headers
        assert not options.read_committed
        assert options.min_partitions is None
        assert options.max_offsets_per_trigger is None
        assert options.max_trigger_delay_s == 900


def test_names_and_words_know_no_upper_case() -> None:
    given = {name.lower(): value for name, value in SUBSCRIBED.items()}
    options = SourceOptions.read(
        given | {"startingoffsets": "EARLIEST", "FAILONDATALOSS": "False", "maxoffsetspertrigger": "Auto"},
        streaming=True,
    )
    assert options.start == AtOffsets(EARLIEST)
    assert not options.fail_on_data_loss
    assert options.target_batch_s == 1.0


@pytest.mark.parametrize(
    ("given", "selection"),
    [
        ({"subscribe": " a, b,,a "}, TopicSelection(topics=("a", "b"))),
        ({"subscribePattern": "a.*"}, TopicSelection(pattern="a.*")),
        ({"assign": '{"b": [1, 0], "a": [0]}'}, TopicSelection(assigned=(("a", 0), ("b", 0), ("b", 1)))),
    ],
)
def test_topics_are_named_in_one_of_three_ways(given: dict[str, str], selection: TopicSelection) -> None:
    options = SourceOptions.read({"kafka.bootstrap.servers": "a:1", **given}, streaming=True)
    assert options.selection == selection


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "no topic is named"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "only one of the options subscribe and assign"),
        ({"subscribe": " , "}, "subscribe is empty"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"assign": "a"}, "assign cannot be 'a'"),
        ({"assign": "{}"}, "assign cannot be"),
        ({"assign": '{"a": [-1]}'}, "assign cannot be"),
        ({"assign": '{"a": 1}'}, "assign cannot be"),
    ],
)
def test_a_selection_that_is_none_is_reported(given: dict[str, str], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        SourceOptions.read({"kafka.bootstrap.servers": "a:1", **given}, streaming=True)


@pytest.mark.parametrize(
    ("streaming", "given", "expected"),
    [
        (False, {"startingOffsets": "latest"}, "cannot be latest in a batch query"),
        (False, {"startingOffsets": '{"orders": {"0": -1}}'}, "cannot be latest in a batch query"),
        (False, {"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        (False, {"endingOffsets": '{"orders": {"0": -2}}'}, "endingOffsets cannot be earliest"),
        (True, {"endingOffsets": "latest"}, "endingOffsets has no meaning in a streaming query"),
        (True, {"endingTimestamp": "1"}, "endingTimestamp has no meaning in a streaming query"),
        (True, {"endingOffsetsByTimestamp": "{}"}, "endingOffsetsByTimestamp has no meaning"),
        (True, {"startingOffsets": "first"}, "startingOffsets cannot be 'first'"),
        (True, {"startingOffsets": '{"orders": {"0": 1.5}}'}, "startingOffsets cannot be"),
        (True, {"startingOffsets": '{"orders": {"0": true}}'}, "startingOffsets cannot be"),
        (True, {"startingOffsets": '{"orders": [1]}'}, "startingOffsets cannot be"),
        (True, {"startingOffsets": '{"orders": {"0": -3}}'}, "below -2"),
        (True, {"startingTimestamp": "yesterday"}, "startingTimestamp cannot be 'yesterday'"),
        (True, {"startingOffsetsByTimestampStrategy": "earliest"}, "Strategy cannot be 'earliest'"),
        (True, {"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger cannot be '0'.*or auto"),
        (True, {"minPartitions": "-1"}, "minPartitions cannot be '-1'"),
        (True, {"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition cannot be 'many'"),
        (True, {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is more than maxOffsetsPerTrigger"),
        (True, {"failOnDataLoss": "maybe"}, "failOnDataLoss cannot be 'maybe'"),
        (True, {"maxTriggerDelay": "soon"}, "maxTriggerDelay cannot be 'soon'"),
        (True, {"maxOffsetsPerTrigger": "auto", "targetBatchSeconds": "0"}, "targetBatchSeconds cannot be '0'"),
        (True, {"maxBytesPerTrigger": "much"}, "maxBytesPerTrigger cannot be 'much'"),
        (True, {"maxBytesPerTrigger": "0g"}, "maxBytesPerTrigger cannot be '0g'"),
        (True, {"kafka.isolation.level": "serializable"}, "isolation.level cannot be 'serializable'"),
        (True, {"kafka.metadata.max.age.ms": "often"}, "metadata.max.age.ms cannot be 'often'"),
        (True, {"startingOffset": "earliest"}, r"Did you mean startingOffsets\?"),
        (True, {"valueFromat": "avro"}, r"Did you mean valueFormat\?"),
        (True, {"schemaRegistry.usr": "me"}, r"Did you mean schemaRegistry\.user\?"),
    ],
)
def test_a_mistake_is_reported_with_what_to_do(streaming: bool, given: dict[str, str], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected) as refused:
        SourceOptions.read(SUBSCRIBED | given, streaming=streaming)
    assert refused.value.advice


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        SourceOptions.read({"kafka.acls": "1", "minPartitions": "x", "failOnDataLoss": "y"}, streaming=True)
    message = str(refused.value)
    assert "4 options are wrong" in message
    assert all(f"\n  {number}. " in message for number in range(1, 5))


def test_what_differs_in_streams_is_not_checked_before_it_is_known() -> None:
    for given in ({"startingOffsets": "latest"}, {"endingOffsets": "latest"}):
        SourceOptions.read(SUBSCRIBED | given, streaming=None)


def test_options_of_others_are_left_to_them() -> None:
    read(path="/data", checkpointLocation="/checkpoint", valueFormat="avro", topic="orders", format="x", schema="x")


def test_a_time_is_stronger_than_times_and_times_than_offsets() -> None:
    times, offsets = '{"orders": {"0": 5}}', '{"orders": {"0": 7}}'
    assert read(startingTimestamp=3, startingOffsetsByTimestamp=times, startingOffsets=offsets).start == AtTimes(
        "startingTimestamp", 3, must_be_found=True
    )
    assert read(startingOffsetsByTimestamp=times, startingOffsets=offsets).start == AtTimes(
        "startingOffsetsByTimestamp", by_place=((("orders", 0), 5),), must_be_found=True
    )
    assert read(startingOffsets=offsets).start == AtOffsets(by_place=((("orders", 0), 7),))


def test_the_end_that_a_query_reports_can_be_where_another_begins() -> None:
    end = NotedOffsets({("orders", 0): 10}, noted={("crews", 0): 3}, topics={"orders": 257}, runs=2)
    reported = json.dumps(to_json(end.together()))
    assert "topic:orders" in reported
    assert read(startingOffsets=reported).start == AtOffsets(by_place=((("orders", 0), 10),))


def test_only_a_start_must_be_found_and_only_by_the_strategy_error() -> None:
    start = read(startingTimestamp=3, startingOffsetsByTimestampStrategy="LATEST").start
    assert start == AtTimes("startingTimestamp", 3, must_be_found=False)
    assert read(streaming=False, endingTimestamp=3).end == AtTimes("endingTimestamp", 3, must_be_found=False)


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("500ms", 0.5), ("2 seconds", 2), ("1h", 3600), ("250", 0.25), ("1 day", 86400)]
)
def test_times_have_units(text: str, seconds: float) -> None:
    assert read(maxTriggerDelay=text).max_trigger_delay_s == seconds


def test_the_target_is_in_seconds() -> None:
    assert read(maxOffsetsPerTrigger="auto", targetBatchSeconds="2.5").target_batch_s == 2.5
    assert read(maxOffsetsPerTrigger="10").target_batch_s is None


@pytest.mark.parametrize(("text", "size"), [("1000", 1000), ("64m", 64 << 20), ("1 GB", 1 << 30), ("8k", 8192)])
def test_sizes_have_units(text: str, size: int) -> None:
    assert read(maxBytesPerTrigger=text).max_bytes_per_trigger == size


def test_the_reference_has_a_row_for_every_option_and_for_no_other() -> None:
    options, _, _ = REFERENCE.read_text().partition("\n## Columns\n")
    rows = re.findall(r"^\| `(\w+)` \|", options, flags=re.MULTILINE)
    assert sorted(rows) == sorted(SOURCE_OPTIONS)
