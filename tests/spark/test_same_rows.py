"""The rows of `format("catchment")` are those of Spark's own connector on the same broker, byte for byte.

Set CATCHMENT_SAME_ROWS_EXAMPLES for a longer run, such as 50.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.client.logs import CatchmentLogs, KafkaLogs, Logs
from tests.compat.java_tool import require_java
from tests.spark.random_topics import SERVER_SETTINGS, Filler, TopicPlan, topic_plans

from catchment.bench.peers.kafka import KafkaServer
from catchment.client.arrow_api import read_arrow
from catchment.client.cluster import Cluster
from catchment.client.offsets import EARLIEST, LATEST
from catchment.testing.embedded import Broker

EXAMPLES: Final = int(os.environ.get("CATCHMENT_SAME_ROWS_EXAMPLES", "3"))
TOPICS: Final = 12
_ISOLATION: Final = "kafka.isolation.level"
_STREAM_S: Final = 600
_ATTEMPTS: Final = 5
_ORDER: Final = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
_FEW_SHARDS: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
_numbers = itertools.count(1)

Offsets = Mapping[str, Mapping[int, int]]


@pytest.fixture(scope="module", params=["catchment", "kafka"])
def compacting_logs(request: pytest.FixtureRequest) -> Iterator[Logs]:
    """Each kind of server, with a cleaner that is at work every moment."""
    if request.param == "catchment":
        with Broker(settings=SERVER_SETTINGS) as broker:
            yield CatchmentLogs(broker)
    else:
        require_java()
        with KafkaServer({**SERVER_SETTINGS, **_FEW_SHARDS}) as server:
            yield KafkaLogs(server.bootstrap_servers)


class Reading:
    """Reads topics through either format."""

    def __init__(self, spark: SparkSession, logs: Logs, topics: Sequence[str], checkpoints: Path) -> None:
        self._spark = spark
        self._checkpoints = checkpoints
        self._options = {
            "kafka.bootstrap.servers": logs.bootstrap_servers,
            "subscribe": ",".join(topics),
            "includeHeaders": "true",
            # Half a second of waiting whenever a partition has no more to give is only theirs.
            "kafka.fetch.max.wait.ms": "10",
        }

    def assert_same(self, options: Mapping[str, str], *, is_stream: bool = False) -> int:
        """How many rows there are, if they are the same. A topic that is being compacted may change between two reads."""
        for attempt in itertools.count(1):
            theirs = self._read("kafka", options, is_stream)
            ours = self._read("catchment", options, is_stream)
            assert ours.schema == theirs.schema
            if _sorted(ours).equals(_sorted(theirs)):
                _assert_in_order(ours)
                return len(ours)
            if _sorted(self._read("kafka", options, is_stream)).equals(_sorted(theirs)) or attempt == _ATTEMPTS:
                assert _sorted(ours).to_pylist() == _sorted(theirs).to_pylist(), options
                raise AssertionError(f"the rows differ in a way that Python does not see: {options}")
        raise AssertionError("unreachable")

    def _read(self, source: str, options: Mapping[str, str], is_stream: bool) -> pa.Table:
        if not is_stream:
            return self._spark.read.format(source).options(**self._options, **options).load().toArrow()
        number = next(_numbers)
        stream = self._spark.readStream.format(source).options(**self._options, **options).load()
        writer = stream.writeStream.format("memory").queryName(f"rows_{number}").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._checkpoints / str(number))).start()
        assert query.awaitTermination(_STREAM_S), f"the stream of {source} does not end"
        return self._spark.table(f"rows_{number}").toArrow()


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by(_ORDER).combine_chunks()


def _assert_in_order(table: pa.Table) -> None:
    """Within a partition rows come by their offsets."""
    places = zip(*(table[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True)
    last: dict[tuple[str, int], int] = {}
    for topic, partition, offset in places:
        assert last.get((topic, partition), -1) < offset
        last[topic, partition] = offset


def extents(logs: Logs, topics: Sequence[str]) -> tuple[Offsets, Offsets]:
    """Where partitions begin and where readers of committed records end."""
    with Cluster(logs.bootstrap_servers) as cluster:
        places = [(topic, number) for topic in topics for number in cluster.partitions(topic)]
        found = [cluster.list_offsets(places, when, read_committed=True) for when in (EARLIEST, LATEST)]
    starts, ends = (
        {topic: {place[1]: at[place].offset for place in places if place[0] == topic} for topic in topics}
        for at in found
    )
    return starts, ends


def offset_range(data: st.DataObject, starts: Offsets, ends: Offsets) -> dict[str, str]:
    """Offsets somewhere in the log, some of them by the numbers that mean its start and its end."""
    first: dict[str, dict[int, int]] = {}
    last: dict[str, dict[int, int]] = {}
    for topic, partitions in starts.items():
        first[topic], last[topic] = {}, {}
        for partition, start in partitions.items():
            end = ends[topic][partition]
            from_offset = data.draw(st.integers(start, end))
            first[topic][partition] = data.draw(st.sampled_from([from_offset, from_offset, -2]))
            last[topic][partition] = data.draw(st.integers(from_offset, end) | st.just(-1))
    return {"startingOffsets": json.dumps(first), "endingOffsets": json.dumps(last)}


def time_range(data: st.DataObject, times_ms: Sequence[int], starts: Offsets) -> dict[str, str]:
    """Two moments near those of records, for all partitions or for each."""
    moments = st.sampled_from(times_ms or [1]).flatmap(lambda time_ms: st.integers(time_ms - 1, time_ms + 1))
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    if data.draw(st.booleans()):
        start, end = sorted((data.draw(moments), data.draw(moments)))
        return {**strategy, "startingTimestamp": str(start), "endingTimestamp": str(end)}
    ranges = {
        topic: {partition: sorted((data.draw(moments), data.draw(moments))) for partition in partitions}
        for topic, partitions in starts.items()
    }
    texts = [
        json.dumps({topic: {number: pair[side] for number, pair in pairs.items()} for topic, pairs in ranges.items()})
        for side in (0, 1)
    ]
    return {**strategy, "startingOffsetsByTimestamp": texts[0], "endingOffsetsByTimestamp": texts[1]}


def record_times_ms(logs: Logs, topics: Sequence[str]) -> list[int]:
    tables = [read_arrow(topic, logs.bootstrap_servers, columns=["timestamp"]) for topic in topics]
    return sorted({moment.value for table in tables for moment in pc.cast(table["timestamp"], pa.timestamp("ms"))})


@pytest.mark.timeout(1500 + 120 * EXAMPLES)
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    # A failure is not made smaller: that would take minutes of Spark, and it names its rows as it is.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(plans=st.lists(topic_plans(), min_size=TOPICS, max_size=TOPICS), data=st.data())
def test_rows_are_those_of_sparks_own_connector(
    spark_with_peer: SparkSession,
    compacting_logs: Logs,
    tmp_path_factory: pytest.TempPathFactory,
    plans: list[TopicPlan],
    data: st.DataObject,
) -> None:
    filler = Filler(compacting_logs)
    try:
        topics = filler.fill(plans)
        starts, ends = extents(compacting_logs, topics)
        reading = Reading(spark_with_peer, compacting_logs, topics, tmp_path_factory.mktemp("checkpoints"))
        committed = reading.assert_same({_ISOLATION: "read_committed"})
        assert reading.assert_same({}) >= committed
        reading.assert_same(
            {_ISOLATION: "read_committed", **offset_range(data, starts, ends), "minPartitions": str(4 * TOPICS)}
        )
        reading.assert_same(time_range(data, record_times_ms(compacting_logs, topics), starts))
        limit = str(data.draw(st.integers(max(1, committed // 3), committed + 10)))
        stream = {_ISOLATION: "read_committed", "startingOffsets": "earliest", "maxOffsetsPerTrigger": limit}
        assert reading.assert_same(stream, is_stream=True) == committed
        event(f"committed rows: {committed}")
    finally:
        filler.close()
