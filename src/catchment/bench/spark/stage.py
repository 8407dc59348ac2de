"""The environment of the comparison: one broker, one Spark session for all sides, and topics filled once for all."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import pyarrow

from catchment.bench.client.payload import payloads
from catchment.bench.peers.maven import connector_jars
from catchment.bench.peers.process import tree_cpu_seconds
from catchment.bench.target import UNFLUSHED, Target, factories
from catchment.bench.workloads.workload import fresh_topic
from catchment.client.arrow_api import read_arrow, write_arrow
from catchment.client.settings import Codec
from catchment.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DISTINCT_VALUES = 1_000
_CHUNK_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class TopicShape:
    """The content of a topic: keys of eight bytes, values of `record_bytes`, the same share in every partition."""

    record_bytes: int
    records: int
    partitions: int = 4
    codec: Codec = "none"


@dataclass(slots=True)
class Cost:
    """The cost of some work: elapsed time, and processor time in all processes, including the broker."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(slots=True)
class Stage:
    """A running broker and session; `target` is the broker for the other benchmarks."""

    target: Target
    spark: SparkSession
    cores: int
    directory: Path
    _stack: ExitStack
    _filled: dict[TopicShape, str] = field(default_factory=dict)
    _checked: set[tuple[str, str]] = field(default_factory=set)

    @property
    def bootstrap_servers(self) -> str:
        return self.target.server.bootstrap_servers

    def filled_topic(self, shape: TopicShape) -> str:
        """A topic of this form. It is filled on first use and kept until the end."""
        if shape not in self._filled:
            name = self._stack.enter_context(fresh_topic(self.target, shape.partitions))
            for partition in range(shape.partitions):
                # The remainder goes to the first partitions, so that the sum is right.
                records = shape.records // shape.partitions + (partition < shape.records % shape.partitions)
                for rows in record_chunks(shape.record_bytes, records):
                    write_arrow(name, rows, self.bootstrap_servers, partition=partition, codec=shape.codec)
            self._filled[shape] = name
        return self._filled[shape]

    @contextmanager
    def costs(self) -> Iterator[Cost]:
        """Measures the block; driver, JVM, Python workers and broker are all children of this process."""
        cost = Cost()
        cpu_before_seconds = tree_cpu_seconds(os.getpid())
        began = time.perf_counter()
        yield cost
        cost.seconds = time.perf_counter() - began
        cost.cpu_seconds = tree_cpu_seconds(os.getpid()) - cpu_before_seconds

    def is_first_check(self, workload: str, side: str) -> bool:
        """Whether this is the first call for the pair: a check that takes as long as the work is done once."""
        pair = (workload, side)
        is_first = pair not in self._checked
        self._checked.add(pair)
        return is_first

    def count_written(self, topic: str) -> int:
        """How many committed records a topic has."""
        return int(read_arrow(topic, self.bootstrap_servers, columns=["offset"]).num_rows)


def record_chunks(record_bytes: int, records: int) -> Iterator[pyarrow.Table]:
    """The rows of a partition, in pieces of limited size."""
    values = pyarrow.array(payloads(record_bytes, DISTINCT_VALUES), pyarrow.binary())
    chunk_records = max(1, _CHUNK_BYTES // record_bytes)
    for start in range(0, records, chunk_records):
        numbers = numpy.arange(start, min(records, start + chunk_records))
        keys = pyarrow.Array.from_buffers(
            pyarrow.binary(8), len(numbers), [None, pyarrow.py_buffer(numbers.astype(">i8").tobytes())]
        )
        columns = {"key": keys.cast(pyarrow.binary()), "value": values.take(pyarrow.array(numbers % DISTINCT_VALUES))}
        yield pyarrow.table(columns)


@contextmanager
def raised_stage(
    broker: str, cores: int, config: Mapping[str, str] | None = None, *, with_connector: bool = True
) -> Iterator[Stage]:
    """Start the broker and the session; both are removed afterwards, with all topics and checkpoints."""
    jars = ",".join(map(str, connector_jars())) if with_connector else ""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="catchment-bench-spark-")))
        factory = factories(UNFLUSHED, [broker])[broker]
        server = stack.enter_context(factory())
        spark = session(f"local[{cores}]", app_name="catchment-bench", config={"spark.jars": jars, **(config or {})})
        stack.callback(spark.stop)
        # Errors are raised as exceptions; a query that is stopped on purpose need not be logged as an error.
        spark.sparkContext.setLogLevel("OFF")
        topics = stack.enter_context(ExitStack())
        yield Stage(Target(broker, factory, server), spark, cores, directory, topics)
