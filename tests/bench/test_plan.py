"""What a run consists of."""

from catchment.bench import plan
from catchment.bench.target import FLUSHED, POLICIES, UNFLUSHED, factories
from catchment.bench.workloads.throughput import Throughput


def shapes(*, full: bool) -> set[tuple[int, str, int, str]]:
    return {
        (workload.record_bytes, workload.acks, workload.partitions, workload.codec)
        for workload in plan.workloads(UNFLUSHED, full=full)
        if isinstance(workload, Throughput)
    }


def test_every_size_acks_partition_count_and_codec_is_covered() -> None:
    covered = shapes(full=False)
    assert {size for size, *_ in covered} == {100, 1_000, 64_000}
    assert {acks for _, acks, _, _ in covered} == {"1", "all"}
    assert {partitions for _, _, partitions, _ in covered} == {1, 16}
    assert {codec for *_, codec in covered} == {"none", "lz4", "zstd"}


def test_full_covers_every_combination() -> None:
    assert len(shapes(full=True)) == 3 * 2 * 2 * 3
    assert shapes(full=False) < shapes(full=True)


def test_every_bar_appears_once_under_the_default_policy_of_kafka() -> None:
    bars = [measure.bar for workload in plan.workloads(UNFLUSHED) for measure in workload.measures if measure.bar]
    assert sorted(bars) == [0.15, 0.15, 0.2, 0.4, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.2, 1.8, 2.0]


def test_small_batches_are_compared_with_the_same_guarantee_and_with_each_default() -> None:
    bars = {
        policy.key: [
            measure.bar
            for workload in plan.selected(plan.workloads(policy), ["small-batches"])
            for measure in workload.measures
        ]
        for policy in POLICIES
    }
    assert bars == {"unflushed": [1.0, 1.0], "flushed": [1.0, 1.0], "defaults": [1.5, 1.0]}


def test_names_of_workloads_and_keys_of_measures_are_unique() -> None:
    for policy in POLICIES:
        workloads = plan.workloads(policy, full=True)
        names = [workload.name for workload in workloads]
        keys = [measure.key for workload in workloads for measure in workload.measures]
        assert len(set(names)) == len(names)
        assert len(set(keys)) == len(keys)


def test_a_filter_accepts_prefixes_and_patterns() -> None:
    workloads = plan.workloads(UNFLUSHED)
    assert [found.name for found in plan.selected(workloads, ["latency"])] == ["latency"]
    assert {found.name for found in plan.selected(workloads, ["*lz4", "start"])} == {
        "startup",
        "throughput-1KB-acksall-1partition-lz4",
    }
    assert plan.selected(workloads, ["nothing"]) == []
    assert plan.selected(workloads, []) == workloads


def test_the_ceiling_is_not_measured_where_disks_are_flushed() -> None:
    names = ["catchment", "kafka", "ceiling"]
    assert list(factories(UNFLUSHED, names)) == names
    assert list(factories(FLUSHED, names)) == ["catchment", "kafka"]
