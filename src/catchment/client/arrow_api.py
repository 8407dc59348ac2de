"""Topics as Arrow tables, in one call: `catchment.read_arrow`, `catchment.scan_arrow` and `catchment.write_arrow`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import pyarrow

from catchment.client.cluster import Cluster
from catchment.client.columns.schema import DEFAULT_COLUMNS, record_schema
from catchment.client.offsets import EARLIEST, LATEST
from catchment.client.produce.queue import Written
from catchment.client.producer import Producer
from catchment.client.reader import Reader, Span
from catchment.client.settings import Codec
from catchment.client.topic_metadata import TopicPartition

Isolation = Literal["committed", "uncommitted"]
Position = int | datetime | Mapping[int, int]
"""An offset for every partition, a time with a time zone, or an offset for each partition by its number."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_arrow(
    topic: str,
    bootstrap_servers: str = "localhost:9092",
    *,
    columns: Sequence[str] | None = None,
    start: Literal["earliest"] | Position = "earliest",
    end: Literal["latest"] | Position = "latest",
    partitions: Iterable[int] | None = None,
    isolation: Isolation = "committed",
    settings: Mapping[str, str] | None = None,
) -> pyarrow.Table:
    """Read the records of a topic as a table, partition after partition and in order within each.

    `start` is the first offset to read and `end` the first not to read; `latest` is the end of the topic at the time of the
    call, and a larger offset means the same. Columns that are not requested cost nothing. `settings` are client settings with
    Kafka's names.
    """
    wanted = DEFAULT_COLUMNS if columns is None else tuple(columns)
    by_partition: dict[int, list[pyarrow.RecordBatch]] = {}
    with Cluster(bootstrap_servers, settings or {}) as cluster:
        spans = spans_between(cluster, topic, start, end, partitions, isolation)
        with Reader(cluster, spans, columns=wanted, read_committed=isolation == "committed") as reader:
            for read in reader:
                by_partition.setdefault(read.partition, []).append(read.batch)
    batches = [batch for _, run in sorted(by_partition.items()) for batch in run]
    return pyarrow.Table.from_batches(batches, record_schema(wanted))


def scan_arrow(
    topic: str,
    bootstrap_servers: str = "localhost:9092",
    *,
    columns: Sequence[str] | None = None,
    start: Literal["earliest"] | Position = "earliest",
    end: Literal["latest"] | Position = "latest",
    partitions: Iterable[int] | None = None,
    isolation: Isolation = "committed",
    settings: Mapping[str, str] | None = None,
) -> Iterator[pyarrow.RecordBatch]:
    """Read the same records as `read_arrow`, batch by batch as they arrive, so that a topic need not fit into memory.

    Each batch is of one partition, in order; batches of different partitions are interleaved.
    """
    wanted = DEFAULT_COLUMNS if columns is None else tuple(columns)
    with Cluster(bootstrap_servers, settings or {}) as cluster:
        spans = spans_between(cluster, topic, start, end, partitions, isolation)
        with Reader(cluster, spans, columns=wanted, read_committed=isolation == "committed") as reader:
            for read in reader:
                yield read.batch


def write_arrow(
    topic: str,
    rows: pyarrow.Table | pyarrow.RecordBatch,
    bootstrap_servers: str = "localhost:9092",
    *,
    partition: int | None = None,
    codec: Codec = "none",
    transactional_id: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> dict[int, Written]:
    """Append rows to a topic and wait until they are acknowledged. Returns what each partition got.

    The columns are value and optionally key, headers, timestamp and partition. A row goes to `partition`, to the partition of its
    column, to that of its key's hash as with the Java client, or in turn. With a transactional id, committed reads see all rows,
    or none if the call fails; if the commit raises TimedOut, it is unknown which.
    """
    with (
        Cluster(bootstrap_servers, settings or {}) as cluster,
        Producer(cluster, transactional_id=transactional_id, codec=codec) as producer,
    ):
        if transactional_id is not None:
            producer.begin()
        producer.write(topic, rows, partition=partition)
        written = producer.flush()
        if transactional_id is not None:
            producer.commit()
        return {number: extent for (_, number), extent in sorted(written.items())}


def spans_between(
    cluster: Cluster,
    topic: str,
    start: Literal["earliest"] | Position = "earliest",
    end: Literal["latest"] | Position = "latest",
    partitions: Iterable[int] | None = None,
    isolation: Isolation = "committed",
) -> list[Span]:
    """What to read of the partitions of a topic, with the parameters of `read_arrow`."""
    if isolation not in ("committed", "uncommitted"):
        raise ValueError(f"isolation is 'committed' or 'uncommitted', not {isolation!r}")
    read_committed = isolation == "committed"
    numbers = sorted(cluster.partitions(topic) if partitions is None else set(partitions))
    topic_partitions = [(topic, number) for number in numbers]
    latest = _offsets(cluster, topic_partitions, LATEST, read_committed)
    starts = _resolve(cluster, topic_partitions, start, latest, read_committed)
    ends = _resolve(cluster, topic_partitions, end, latest, read_committed)
    return [
        Span(*topic_partition, starts[topic_partition], min(ends[topic_partition], latest[topic_partition]))
        for topic_partition in topic_partitions
    ]


def _resolve(
    cluster: Cluster,
    topic_partitions: list[TopicPartition],
    position: Literal["earliest", "latest"] | Position,
    latest: dict[TopicPartition, int],
    read_committed: bool,
) -> dict[TopicPartition, int]:
    if isinstance(position, Mapping):
        if missing := [number for _, number in topic_partitions if number not in position]:
            raise ValueError(
                f"no offset is given for partition {missing[0]}; leave it out of `partitions`, or name one"
            )
        return {topic_partition: position[topic_partition[1]] for topic_partition in topic_partitions}
    if isinstance(position, datetime):
        if position.tzinfo is None:
            raise ValueError(f"{position} has no time zone: give it one, such as datetime.UTC")
        # Logs have timestamps in milliseconds: for a time within one, the first record at or after it is that of the next one.
        time_ms = -((_EPOCH - position) // timedelta(milliseconds=1))
        # Negative times have special meanings for brokers.
        found = _offsets(cluster, topic_partitions, max(0, time_ms), read_committed)
        return {
            topic_partition: offset if offset >= 0 else latest[topic_partition]
            for topic_partition, offset in found.items()
        }
    if isinstance(position, int):
        return dict.fromkeys(topic_partitions, position)
    if position == "latest":
        return latest
    if position == "earliest":
        return _offsets(cluster, topic_partitions, EARLIEST, read_committed)
    raise ValueError(f"{position!r} is not a position: give an offset, a time, 'earliest' or 'latest'")


def _offsets(
    cluster: Cluster, topic_partitions: list[TopicPartition], at: int, read_committed: bool
) -> dict[TopicPartition, int]:
    found = cluster.list_offsets(topic_partitions, at, read_committed=read_committed)
    return {topic_partition: found[topic_partition].offset for topic_partition in topic_partitions}
