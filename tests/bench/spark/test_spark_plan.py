"""What a run of the Spark benchmark consists of."""

import pytest

pytest.importorskip("pyspark", reason="the benchmark of Spark needs the extra `spark`")

from catchment.bench.spark import plan
from catchment.bench.spark.stage import TopicShape, record_chunks


def test_every_bar_of_the_comparison_is_in_the_plan() -> None:
    bars = {
        measure.key: (measure.bar, measure.bar_peer)
        for workload in plan.workloads()
        for measure in workload.measures
        if measure.bar is not None
    }
    assert bars == {
        "read-all-100B-plain": (4.0, "kafka"),
        "read-value-100B-plain": (4.5, "kafka"),
        "read-all-1KB-plain": (2.5, "kafka"),
        "read-value-1KB-plain": (3.0, "kafka"),
        "write-100B": (2.0, "kafka"),
        "write-1KB": (1.5, "kafka"),
        "exactly-once-100B": (0.75, "at least once"),
        "exactly-once-1KB": (0.75, "at least once"),
        "stream-exactly-once": (0.75, "at least once"),
        "p50 default": (0.3, "kafka"),
        "p50 exactly once": (1.1, "kafka tuned"),
        "p50 at least once": (1.1, "kafka tuned"),
    }


def test_every_bar_has_its_peer_among_the_sides() -> None:
    for workload in plan.workloads():
        columns = {side.column for side in workload.sides}
        assert "catchment" in columns
        assert {measure.bar_peer for measure in workload.measures if measure.bar is not None} <= columns


def test_names_of_workloads_and_keys_of_measures_are_unique() -> None:
    names = [workload.name for workload in plan.workloads()] + list(plan.growths(2))
    keys = [measure.key for workload in plan.workloads() for measure in workload.measures]
    assert len(set(names)) == len(names)
    assert len(set(keys)) == len(keys)


def test_compressed_topics_are_read_too() -> None:
    names = {workload.name for workload in plan.workloads()}
    assert {f"read-all-{size}-{codec}" for size in ("100B", "1KB") for codec in ("plain", "lz4", "zstd")} <= names


def test_a_hundred_million_records_are_measured_only_with_full() -> None:
    def sizes(*, full: bool) -> list[int]:
        _, shapes = plan.growths(2, full=full)["growth-records"]
        assert {size: shape.records for size, shape in shapes.items()} == {size: size for size in shapes}
        return list(shapes)

    assert sizes(full=False) == [1_000_000, 10_000_000]
    assert sizes(full=True) == [1_000_000, 10_000_000, 100_000_000]


@pytest.mark.parametrize(("cores", "counts"), [(2, [8, 64]), (16, [16, 128])])
def test_growth_by_partitions_keeps_the_number_of_records_and_of_busy_cores(cores: int, counts: list[int]) -> None:
    _, shapes = plan.growths(cores)["growth-partitions"]
    assert [shape.partitions for shape in shapes.values()] == list(shapes) == counts
    assert len({shape.records for shape in shapes.values()}) == 1


def test_records_have_the_requested_size_and_their_number_as_key() -> None:
    records = TopicShape(1_000, 100_000).records
    chunks = list(record_chunks(1_000, records))
    assert len(chunks) > 1
    assert sum(chunk.num_rows for chunk in chunks) == records
    last = chunks[-1].slice(chunks[-1].num_rows - 1).to_pylist()[0]
    assert int.from_bytes(last["key"], "big") == records - 1
    assert len(last["value"]) == 1_000
