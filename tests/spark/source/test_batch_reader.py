"""Batch queries: what is planned, what is read, and what happens when records are gone."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType
from tests.client.logs import CatchmentLogs, Logs
from tests.spark.driven_source import batch_reader, batch_values, delete_records, ranges, rows, source, values

from catchment.client.columns.schema import ALL_COLUMNS, record_schema
from catchment.client.errors import BrokerError, ClientError, SettingsError
from catchment.spark.source.data_loss import DataLost
from catchment.spark.source.pushdown import Narrowing

TEN = [b"%d" % number for number in range(10)]


@pytest.fixture
def topic(catchment_logs: CatchmentLogs) -> str:
    """Ten records in partition 0, three in partition 1, none in partition 2."""
    name = catchment_logs.topic(partitions=3)
    catchment_logs.fill(name, TEN)
    catchment_logs.fill(name, [b"a", b"b", b"c"], partition=1)
    return name


def offsets(topic: str, *numbers: int) -> str:
    return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})


def test_columns_and_types_are_those_of_sparks_own_source(catchment_logs: CatchmentLogs) -> None:
    schema = source(catchment_logs, subscribe="any", includeHeaders=True).schema()
    assert tuple(schema.names) == ALL_COLUMNS
    assert to_arrow_schema(schema, timezone="UTC").equals(record_schema(ALL_COLUMNS))
    assert source(catchment_logs, subscribe="any").schema().names == list(ALL_COLUMNS[:-1])


def test_a_topic_is_read_from_beginning_to_end_in_order(logs: Logs) -> None:
    topic = logs.topic(partitions=2)
    logs.fill(topic, TEN)
    logs.fill(topic, [b"x"], partition=1)
    assert batch_values(logs, subscribe=topic) == [*TEN, b"x"]


def test_a_task_reads_one_partition_and_empty_ones_have_none(catchment_logs: CatchmentLogs, topic: str) -> None:
    assert ranges(batch_reader(catchment_logs, subscribe=topic).partitions()) == [(0, 0, 10), (1, 0, 3)]


def test_tasks_are_split_where_an_option_asks_for_it(catchment_logs: CatchmentLogs, topic: str) -> None:
    reader = batch_reader(catchment_logs, subscribe=topic, maxRecordsPerPartition=4)
    assert ranges(reader.partitions()) == [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 3)]
    assert values(reader, reader.partitions()) == [*TEN, b"a", b"b", b"c"]
    assert len(batch_reader(catchment_logs, subscribe=topic, minPartitions=5).partitions()) >= 5


def test_only_the_columns_of_the_users_schema_come_in_its_order(catchment_logs: CatchmentLogs, topic: str) -> None:
    schema = StructType([StructField("offset", LongType()), StructField("value", BinaryType(), nullable=False)])
    reader = batch_reader(catchment_logs, schema, subscribe=topic)
    table = rows(reader, reader.partitions())
    assert table.column_names == ["offset", "value"]
    assert table.column("offset").to_pylist() == [*range(10), *range(3)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([StructField("valeu", BinaryType())], "a column valeu.*There are key, value"),
        ([StructField("value", StringType())], "type string, but it is binary"),
        ([StructField("offset", IntegerType())], "type int, but it is bigint"),
        ([], "names no column"),
    ],
)
def test_a_schema_that_is_not_ours_is_refused(
    catchment_logs: CatchmentLogs, topic: str, fields: list[StructField], expected: str
) -> None:
    with pytest.raises(SettingsError, match=expected):
        batch_reader(catchment_logs, StructType(fields), subscribe=topic)


def test_a_query_with_nothing_to_read_reads_nothing(catchment_logs: CatchmentLogs) -> None:
    reader = batch_reader(catchment_logs, subscribe=catchment_logs.topic())
    assert reader.partitions() == []
    # Spark then makes a task of its own.
    assert list(reader.read(InputPartition(None))) == []


def test_offsets_say_where_to_begin_and_end(catchment_logs: CatchmentLogs, topic: str) -> None:
    found = batch_values(
        catchment_logs,
        subscribe=topic,
        startingOffsets=offsets(topic, 7, -2, -2),
        endingOffsets=offsets(topic, 9, 1, -1),
    )
    assert found == [b"7", b"8", b"a"]


def test_partitions_can_be_assigned(catchment_logs: CatchmentLogs, topic: str) -> None:
    assert batch_values(catchment_logs, assign=json.dumps({topic: [1]})) == [b"a", b"b", b"c"]
    with pytest.raises(BrokerError, match="has no partition 7, which the option assign names"):
        batch_values(catchment_logs, assign=json.dumps({topic: [7]}))


def test_a_pattern_matches_whole_names(catchment_logs: CatchmentLogs, topic: str) -> None:
    assert batch_values(catchment_logs, subscribePattern=f"{topic[:-1]}[{topic[-1]}]") == [*TEN, b"a", b"b", b"c"]
    assert batch_values(catchment_logs, subscribePattern=topic[1:]) == []


def test_a_topic_that_does_not_exist_is_reported(catchment_logs: CatchmentLogs) -> None:
    with pytest.raises(BrokerError, match="topic nowhere: it does not exist"):
        batch_values(catchment_logs, subscribe="nowhere")


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_every_partition_is_named_and_no_other(catchment_logs: CatchmentLogs, topic: str, name: str) -> None:
    with pytest.raises(SettingsError, match="no offset or time is given for partition 2"):
        batch_values(catchment_logs, subscribe=topic, **{name: offsets(topic, 1, 1)})
    with pytest.raises(SettingsError, match=r"partition 3 of topic .*, which the query does not read"):
        batch_values(catchment_logs, subscribe=topic, **{name: offsets(topic, 1, 1, 0, 0)})


def timed_topic(logs: Logs) -> str:
    """Records of the times 1000, 3000 and 2000 ms."""
    name = logs.topic()
    producer = Producer({"bootstrap.servers": logs.bootstrap_servers})
    for time_ms in (1000, 3000, 2000):
        producer.produce(name, b"%d" % time_ms, partition=0, timestamp=time_ms)
    assert producer.flush(30) == 0
    return name


def test_times_say_where_to_begin_and_end(logs: Logs) -> None:
    topic = timed_topic(logs)
    assert batch_values(logs, subscribe=topic, startingTimestamp=1001) == [b"3000", b"2000"]
    assert batch_values(logs, subscribe=topic, endingTimestamp=3000) == [b"1000"]
    assert batch_values(logs, subscribe=topic, endingTimestamp=9000) == [b"1000", b"3000", b"2000"]
    each = json.dumps({topic: {"0": 2000}})
    assert batch_values(logs, subscribe=topic, startingOffsetsByTimestamp=each) == [b"3000", b"2000"]
    assert batch_values(logs, subscribe=topic, endingOffsetsByTimestamp=each) == [b"1000"]


def test_a_start_later_than_all_records_is_an_error_or_the_end(catchment_logs: CatchmentLogs) -> None:
    topic = timed_topic(catchment_logs)
    with pytest.raises(ClientError, match=r"partition 0 of topic .* no record at or after 3001 ms.*Strategy to latest"):
        batch_values(catchment_logs, subscribe=topic, startingTimestamp=3001)
    found = batch_values(
        catchment_logs, subscribe=topic, startingTimestamp=3001, startingOffsetsByTimestampStrategy="latest"
    )
    assert found == []


def test_records_that_retention_took_are_an_error_that_names_them(logs: Logs) -> None:
    topic = logs.topic()
    logs.fill(topic, TEN)
    reader = batch_reader(logs, subscribe=topic, startingOffsets=offsets(topic, 2))
    planned = reader.partitions()
    delete_records(logs, topic, 5)
    expected = rf"offsets 2 to 5 of topic {topic}, partition 0, cannot be read.*holds offsets 5 to 10.*failOnDataLoss"
    with pytest.raises(DataLost, match=expected):
        values(reader, planned)


def test_records_that_retention_took_are_ignored_if_allowed(
    catchment_logs: CatchmentLogs, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"subscribe": topic, "failOnDataLoss": False, "startingOffsets": offsets(topic, 2, 0, 0)}
    reader = batch_reader(catchment_logs, **options)
    planned = reader.partitions()
    delete_records(catchment_logs, topic, 5)
    with caplog.at_level(logging.WARNING):
        assert values(reader, planned) == [*TEN[5:], b"a", b"b", b"c"]
    assert f"offsets 2 to 5 of topic {topic}, partition 0, cannot be read" in caplog.text
    delete_records(catchment_logs, topic, 10)
    assert values(reader, planned) == [b"a", b"b", b"c"]


def test_an_end_behind_the_last_record_is_lost_data(catchment_logs: CatchmentLogs, topic: str) -> None:
    options = {"subscribe": topic, "endingOffsets": offsets(topic, 11, 3, 0)}
    with pytest.raises(
        DataLost, match=f"endingOffsets names offset 11 of topic {topic}, partition 0, which ends at 10"
    ):
        batch_values(catchment_logs, **options)
    assert batch_values(catchment_logs, failOnDataLoss=False, **options) == [*TEN, b"a", b"b", b"c"]


def test_a_topic_deleted_between_plan_and_task_is_lost_data(catchment_logs: CatchmentLogs, topic: str) -> None:
    strict, lenient = (
        batch_reader(catchment_logs, subscribe=topic, failOnDataLoss=fails, kafka__default__api__timeout__ms=500)
        for fails in (True, False)
    )
    planned = strict.partitions()
    catchment_logs.broker.delete_topic(topic)
    with pytest.raises(DataLost, match="the topic is gone"):
        values(strict, planned)
    assert values(lenient, planned) == []


def test_aborted_records_are_left_out_where_the_isolation_level_says_so(logs: Logs) -> None:
    topic = logs.topic()
    logs.transaction(topic, [b"kept"], commit=True)
    logs.transaction(topic, [b"dropped"], commit=False)
    logs.settle(topic)
    assert batch_values(logs, subscribe=topic) == [b"kept", b"dropped"]
    assert batch_values(logs, subscribe=topic, kafka__isolation__level="read_committed") == [b"kept"]


def narrowed(*filters: Filter) -> Narrowing:
    narrowing = Narrowing()
    for one in filters:
        narrowing = narrowing.with_filter(one)
    return narrowing


def at(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([EqualTo(("partition",), 1)], [(1, 0, 3)]),
        ([In(("partition",), (0, 2))], [(0, 0, 10)]),
        ([In(("partition",), (0, 2)), EqualTo(("partition",), 1)], []),
        ([EqualTo(("offset",), 2)], [(0, 2, 3), (1, 2, 3)]),
        ([GreaterThan(("offset",), 2)], [(0, 3, 10)]),
        ([GreaterThanOrEqual(("offset",), 2)], [(0, 2, 10), (1, 2, 3)]),
        ([LessThan(("offset",), 2)], [(0, 0, 2), (1, 0, 2)]),
        ([LessThanOrEqual(("offset",), 2), GreaterThan(("offset",), 0)], [(0, 1, 3), (1, 1, 3)]),
        ([EqualTo(("topic",), "elsewhere")], []),
        ([Not(EqualTo(("partition",), 1))], [(0, 0, 10), (1, 0, 3)]),
        ([EqualTo(("value", "offset"), 1)], [(0, 0, 10), (1, 0, 3)]),
        ([EqualTo(("offset",), None)], [(0, 0, 10), (1, 0, 3)]),
        ([GreaterThan(("timestamp",), at(4_102_444_800_000))], []),
        ([LessThan(("timestamp",), at(1))], [(0, 0, 10), (1, 0, 3)]),
        # To a broker, -1 would be the end of a partition.
        ([GreaterThan(("timestamp",), at(-1))], [(0, 0, 10), (1, 0, 3)]),
    ],
)
def test_filters_cut_what_is_planned_and_are_left_to_spark(
    catchment_logs: CatchmentLogs, topic: str, filters: list[Filter], left: list[tuple[int, int, int]]
) -> None:
    reader = batch_reader(catchment_logs, subscribe=topic)
    assert list(reader.pushFilters(filters)) == filters
    assert ranges(reader.partitions()) == left


def test_a_lower_bound_of_time_cuts_and_an_upper_does_not(catchment_logs: CatchmentLogs) -> None:
    topic = timed_topic(catchment_logs)
    cuts: list[tuple[Filter, list[tuple[int, int, int]]]] = [
        (GreaterThanOrEqual(("timestamp",), at(1500)), [(0, 1, 3)]),
        (EqualTo(("timestamp",), at(2000)), [(0, 1, 3)]),
        (LessThan(("timestamp",), at(2500)), [(0, 0, 3)]),
    ]
    for one, left in cuts:
        reader = batch_reader(catchment_logs, subscribe=topic)
        reader.pushFilters([one])
        assert ranges(reader.partitions()) == left


def test_several_filters_leave_what_each_leaves() -> None:
    both = narrowed(In(("topic",), ("a", "b")), In(("topic",), ("b", "c")), EqualTo(("partition",), 0))
    assert [both.keeps(place) for place in (("a", 0), ("b", 0), ("c", 0), ("b", 1))] == [False, True, False, False]
    assert narrowed(EqualTo(("topic",), "a"), EqualTo(("topic",), "b")).topics == frozenset()


def test_a_session_without_pushdown_takes_the_reader_for_one_without_it(catchment_logs: CatchmentLogs) -> None:
    reader = batch_reader(catchment_logs, subscribe="any")
    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters
