"""Reports of a city in a topic, which both sides of the comparison read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

import numpy
import pyarrow
from pyarrow import compute

from catchment.bench.spark.stage import Stage
from catchment.bench.workloads.workload import fresh_topic
from catchment.client.arrow_api import write_arrow

SCHEMA: Final = "id string, district string, kind string, at timestamp"
KINDS: Final = ("fire", "flood", "quake")
DISTRICTS: Final = tuple(f"district {number}" for number in range(20))
PER_SECOND: Final = 1_000
_REPEATED_EVERY: Final = 50
_CHUNK: Final = 100_000


class Topics(NamedTuple):
    """Those that a run uses."""

    reports: str
    crews: str
    clean: str


def distinct(records: int) -> int:
    """How many of `records` reports are not duplicates."""
    return records - records // _REPEATED_EVERY


def fill(stage: Stage, topic: str, crews: str, records: int) -> None:
    """Reports at an even pace until now, every fiftieth one a duplicate; and a crew for each district."""
    # Older ones would be deleted by the topic's retention while the benchmark runs.
    begin_ms = int(time.time() * 1000) - records * 1000 // PER_SECOND
    for begin in range(0, records, _CHUNK):
        numbers = numpy.arange(begin, min(records, begin + _CHUNK))
        numbers = numpy.where(numbers % _REPEATED_EVERY == _REPEATED_EVERY - 1, numbers - 1, numbers)
        write_arrow(topic, _rows(numbers, begin_ms), stage.bootstrap_servers)
    values = [json.dumps({"district": one, "crew": number}) for number, one in enumerate(DISTRICTS)]
    rows = {"key": pyarrow.array(DISTRICTS, pyarrow.binary()), "value": pyarrow.array(values, pyarrow.binary())}
    write_arrow(crews, pyarrow.table(rows), stage.bootstrap_servers)


def _rows(numbers: numpy.ndarray[tuple[int], numpy.dtype[numpy.int64]], begin_ms: int) -> pyarrow.Table:
    times_ms = begin_ms + numbers * 1000 // PER_SECOND
    moments = pyarrow.array(times_ms, pyarrow.timestamp("ms", "UTC"))
    texts = compute.strftime(moments, "%Y-%m-%dT%H:%M:%SZ")
    ids = compute.cast(pyarrow.array(numbers), pyarrow.string())
    districts = pyarrow.array(DISTRICTS).take(pyarrow.array(numbers % len(DISTRICTS)))
    kinds = pyarrow.array(KINDS).take(pyarrow.array(numbers % len(KINDS)))
    parts = ['{"id":"', ids, '","district":"', districts, '","kind":"', kinds, '","at":"', texts, '"}', ""]
    values = compute.binary_join_element_wise(*parts)
    return pyarrow.table(
        {"key": ids.cast(pyarrow.binary()), "value": values.cast(pyarrow.binary()), "timestamp": moments}
    )


@contextmanager
def fresh_topics(stage: Stage, partitions: int) -> Iterator[Topics]:
    """Three topics, which are deleted afterwards."""
    with ExitStack() as stack:
        names = [stack.enter_context(fresh_topic(stage.target, number)) for number in (partitions, 1, partitions)]
        yield Topics(*names)
