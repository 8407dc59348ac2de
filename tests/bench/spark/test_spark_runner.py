"""Turns, warm-up and failures of the Spark benchmark, with workloads that only pretend."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

pytest.importorskip("pyspark", reason="the benchmark of Spark needs the extra `spark`")

from catchment.bench.measure import Measure, Section
from catchment.bench.results import Results
from catchment.bench.runner import Progress
from catchment.bench.spark import growth, runner
from catchment.bench.spark.side import EXACTLY_ONCE, THEIRS, THEIRS_TUNED, Side
from catchment.bench.spark.stage import Cost, Stage, TopicShape
from catchment.client.errors import ClientError

STAGE = cast("Stage", None)
SECTION = Section("pretended", "pretended work")


@dataclass
class Pretended:
    """Returns the next of the given numbers for each side, and remembers who was asked."""

    numbers: dict[str, list[float]]
    sides: Sequence[Side] = (EXACTLY_ONCE, THEIRS)
    fails: str = ""
    asked: list[str] = field(default_factory=list)
    name: str = "pretended"
    section: Section = SECTION
    measures: Sequence[Measure] = (Measure("rate", "a rate", "rows/s", bar=4.0),)

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        self.asked.append(side.title)
        if side.title == self.fails:
            raise ClientError("the topic is gone", "Create it.\n\tat java.frame")
        return {"rate": self.numbers[side.title].pop(0)}


def run(workload: Pretended, rounds: int) -> tuple[Results, int]:
    results = Results(peers=runner.peer_columns([workload]))
    steps: list[None] = []
    progress = Progress(describe=lambda text: None, advance=lambda: steps.append(None))
    runner.run(STAGE, [workload], rounds, results, progress)
    return results, len(steps)


def test_the_first_two_rounds_do_not_count_and_the_sides_take_turns() -> None:
    workload = Pretended({"catchment": [1.0, 2.0, 800.0, 900.0], "kafka": [1.0, 2.0, 100.0, 325.0]})
    results, steps = run(workload, 2)
    (row,) = results.rows()
    assert workload.asked == ["catchment", "kafka", "kafka", "catchment"] * 2
    assert row.rounds == {"catchment": [800.0, 900.0], "kafka": [100.0, 325.0]}
    assert row.ratio("kafka") == 4.0
    assert row.passed() is True
    assert steps == runner.step_count([workload], 2)


def test_a_side_that_fails_is_reported_once_and_does_not_affect_the_other() -> None:
    workload = Pretended({"catchment": [0.0, 1.0, 2.0, 3.0]}, fails="kafka")
    results, _ = run(workload, 2)
    assert results.failures == ["pretended with kafka: the topic is gone. Create it."]
    (row,) = results.rows()
    assert row.rounds == {"catchment": [2.0, 3.0]}
    assert row.passed() is None


def test_the_columns_of_peers_are_listed_once_and_without_ours() -> None:
    workloads = [Pretended({}), Pretended({}, sides=(EXACTLY_ONCE, THEIRS_TUNED, THEIRS))]
    assert runner.peer_columns(workloads) == ["kafka", "kafka tuned"]


def test_growth_is_the_median_cost_of_a_row_with_the_bar_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {1: [99.0, 5.0, 10.0, 2.5], 64: [99.0, 10.0, 11.0, 9.0]}

    def pretended_cost(stage: Stage, side: Side, shape: TopicShape) -> Cost:
        return Cost(seconds[shape.partitions].pop(0))

    monkeypatch.setattr(growth, "read_cost", pretended_cost)
    shapes = {count: TopicShape(100, 10_000_000, count) for count in (1, 64)}
    found = growth.measure(STAGE, "by partitions", shapes, 3, Progress(lambda text: None, lambda: None))
    assert found.costs == {1: pytest.approx(500), 64: pytest.approx(1_000)}
    assert found.ratio == pytest.approx(2)
    assert found.bar == 1.3
    assert not found.is_flat
