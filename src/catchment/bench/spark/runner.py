"""Run the workloads: at each one the sides take turns, and the order is reversed in every second round.

The first two rounds of each workload do not count. They fill the topic, start Python's workers and let the JVM compile
what it runs: the processor time of a row still falls after the first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from catchment.bench.results import Results
from catchment.bench.runner import Progress
from catchment.bench.spark.stage import Stage
from catchment.bench.spark.workload import SparkWorkload
from catchment.bench.target import OURS
from catchment.client.errors import ClientError

# Errors of a side that do not end the whole run.
_EXPECTED = (RuntimeError, OSError, KafkaException, PySparkException, Py4JError, ClientError)
WARM_UP_ROUNDS = 2


def step_count(workloads: Sequence[SparkWorkload], rounds: int) -> int:
    """How many steps `run` will report."""
    return sum(len(workload.sides) for workload in workloads) * (rounds + WARM_UP_ROUNDS)


def peer_columns(workloads: Sequence[SparkWorkload]) -> list[str]:
    """The columns beside ours, each once, in the order of the workloads."""
    columns = dict.fromkeys(side.column for workload in workloads for side in workload.sides)
    return [column for column in columns if column != OURS]


def run(stage: Stage, workloads: Sequence[SparkWorkload], rounds: int, results: Results, progress: Progress) -> None:
    """Run every workload and fill in the results. A side that fails skips the rest of its workload."""
    for workload in workloads:
        for measure in workload.measures:
            results.expect(workload.section, measure)
        sides = list(workload.sides)
        for number in range(rounds + WARM_UP_ROUNDS):
            counts = number >= WARM_UP_ROUNDS
            for side in list(sides if number % 2 == 0 else reversed(sides)):
                progress.describe(f"{workload.name} · {side.title} · {_round_title(number)}")
                # Write the page cache of the previous side to disk now, so that it does not cost this one time.
                os.sync()
                try:
                    values = workload.run(stage, side)
                except _EXPECTED as error:
                    sides.remove(side)
                    results.failures.append(f"{workload.name} with {side.title}: {_first_lines(error)}")
                    continue
                if counts:
                    results.add(workload.section, side.column, values)
                progress.advance()


def _round_title(number: int) -> str:
    counted = number - WARM_UP_ROUNDS
    return "warming up" if counted < 0 else f"round {counted + 1}"


def _first_lines(error: Exception) -> str:
    """The error without its Java stack trace."""
    return " ".join(str(error).split("\tat ")[0].split())[:1_000]
