"""What a run of the benchmark of pipelines consists of."""

import pytest

pytest.importorskip("pyspark", reason="the benchmark of pipelines needs the extra `pipelines`")

from catchment.bench.pipelines import plan


def test_every_bar_and_limit_is_in_the_plan() -> None:
    measures = [measure for workload in plan.workloads() for measure in workload.measures]
    assert {measure.key: measure.bar for measure in measures if measure.bar is not None} == {"pipeline-throughput": 0.9}
    assert {measure.key: measure.limit for measure in measures if measure.limit is not None} == {
        "store-latency-p50": 1_000.0,
        "alert-latency-p50": 1_000.0,
        "realtime-alert-latency-p50": 15.0,
    }
    assert all(not measure.higher_is_better for measure in measures if measure.limit is not None)


def test_every_bar_has_its_peer_among_the_sides() -> None:
    for workload in plan.workloads():
        columns = {side.column for side in workload.sides}
        assert "catchment" in columns
        assert {measure.bar_peer for measure in workload.measures if measure.bar is not None} <= columns


def test_names_of_workloads_and_keys_of_measures_are_unique() -> None:
    for quick in (False, True):
        workloads = plan.workloads(quick=quick)
        names = [workload.name for workload in workloads]
        keys = [measure.key for workload in workloads for measure in workload.measures]
        assert len(set(names)) == len(names)
        assert len(set(keys)) == len(keys)


def test_only_real_time_mode_needs_the_jars_of_sparks_connector() -> None:
    assert [one.name for one in plan.workloads() if plan.needs_connector(one)] == ["realtime-alert-latency"]
