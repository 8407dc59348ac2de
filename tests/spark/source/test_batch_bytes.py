"""Batches of large records have fewer of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.client.logs import Logs
from tests.spark.driven_source import Query, stream_reader

from catchment.client.topic_metadata import TopicPartition
from catchment.spark.source.admission import Admission
from catchment.spark.source.batch_bytes import BatchBytes
from catchment.spark.source.options import SourceOptions
from catchment.spark.source.time_admission import count_waiting

A, B = ("t", 0), ("t", 1)
OPTIONS = SourceOptions.read({"kafka.bootstrap.servers": "a:1", "subscribe": "t"}, streaming=True)
MEBIBYTE = 1 << 20


class Topic:
    """Partitions with records of known sizes, and how often they were sampled."""

    def __init__(self, sizes: Mapping[TopicPartition, list[int]]) -> None:
        self.sizes = sizes
        self.looks = 0
        self.now_s = 0.0

    @property
    def ends(self) -> dict[TopicPartition, int]:
        return {place: len(sizes) for place, sizes in self.sizes.items()}

    def look(self, place: TopicPartition, offset: int) -> float | None:
        self.looks += 1
        seen = self.sizes[place][offset : offset + 10]
        return sum(seen) / len(seen) if seen else None

    def bytes_between(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
        return sum(sum(sizes[start[place] : end[place]]) for place, sizes in self.sizes.items())

    def admission(self, most_bytes: int) -> Admission:
        sizes = BatchBytes(most_bytes, self.look, lambda: self.now_s)
        return Admission(replace(OPTIONS, max_offsets_per_trigger=100_000), most_rows=sizes.most_rows)


def test_a_batch_of_small_records_has_as_many_as_it_may_and_costs_a_few_looks() -> None:
    topic = Topic({A: [100] * 50_000})
    admission = topic.admission(64 * MEBIBYTE)
    for offset in range(0, 40_000, 1_000):
        assert admission.end({A: offset}, {A: offset + 1_000}, may_wait=True) == {A: offset + 1_000}
    assert topic.looks == 3, "one at the beginning, at a third and at two"
    topic.now_s += 11
    admission.end({A: 40_000}, {A: 50_000}, may_wait=True)
    assert topic.looks == 6


def test_a_batch_of_large_records_has_about_as_many_bytes_as_it_may() -> None:
    topic = Topic({A: [100_000] * 5_000, B: [1_000] * 5_000})
    end = topic.admission(10_000_000).end({A: 0, B: 0}, topic.ends, may_wait=True)
    assert 9_000_000 < topic.bytes_between({A: 0, B: 0}, end) <= 10_000_000


def test_large_records_behind_small_ones_are_seen_before_they_are_in_a_batch() -> None:
    topic = Topic({A: [100] * 30_000 + [100_000] * 70_000})
    admission = topic.admission(10_000_000)
    start = {A: 0}
    while start[A] < 40_000:
        end = admission.end(start, topic.ends, may_wait=True)
        assert end[A] > start[A]
        assert topic.bytes_between(start, end) < 40_000_000
        start = end


def test_one_record_that_is_too_large_is_a_batch_nevertheless() -> None:
    topic = Topic({A: [MEBIBYTE] * 100})
    assert topic.admission(1).end({A: 0}, topic.ends, may_wait=True) == {A: 1}


def test_where_nothing_can_be_seen_the_number_of_records_decides() -> None:
    admission = Admission(
        replace(OPTIONS, max_offsets_per_trigger=500), most_rows=BatchBytes(1, lambda place, offset: None).most_rows
    )
    assert admission.end({A: 0}, {A: 1_000}, may_wait=True) == {A: 500}


@given(
    sizes=st.fixed_dictionaries({A: st.lists(st.integers(0, 10_000)), B: st.lists(st.integers(0, 10_000))}),
    most_bytes=st.integers(1, 100_000),
)
def test_batches_go_on_to_the_end_whatever_the_sizes_are(
    sizes: dict[TopicPartition, list[int]], most_bytes: int
) -> None:
    topic = Topic(sizes)
    admission = topic.admission(most_bytes)
    start = dict.fromkeys(sizes, 0)
    while start != topic.ends:
        end = admission.end(start, topic.ends, may_wait=True)
        assert count_waiting(start, end) > 0
        assert all(start[place] <= end[place] <= topic.ends[place] for place in start)
        start = end


def test_a_stream_of_large_records_comes_in_several_batches(logs: Logs) -> None:
    topic = logs.topic()
    sent = [b"%3d" % number + b"x" * 50_000 for number in range(100)]
    logs.fill(topic, sent, settings={"compression.type": "zstd"})
    query = Query(stream_reader(logs, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="1m"))
    batches: list[list[bytes]] = []
    while sum(map(len, batches)) < len(sent):
        batches.append(query.batch())
    assert [value for batch in batches for value in batch] == sent
    assert max(map(len, batches)) == MEBIBYTE // 50_000
