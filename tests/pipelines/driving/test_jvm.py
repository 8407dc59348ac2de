"""A JVM whose connections are already broken is distinguished from a live one, whether its process or its sockets end first."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from catchment.pipelines.driving.driven_run import DrivenRun
from catchment.pipelines.driving.jvm import has_died, jvm_pid
from catchment.pipelines.driving.supervision.stop_flag import StopFlag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from catchment.pipelines.execution.run import Run


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Ends when its input does, as PySpark's JVM."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as started:
        yield started


def session_of(process: subprocess.Popen[bytes] | None) -> SparkSession:
    gateway = SimpleNamespace() if process is None else SimpleNamespace(proc=process)
    return cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway)))


def test_one_that_is_about_to_end_has_died(process: subprocess.Popen[bytes]) -> None:
    assert not has_died(session_of(process), within_s=0)
    assert process.stdin is not None
    process.stdin.close()
    assert has_died(session_of(process), within_s=60)
    assert has_died(session_of(process), within_s=0), "and stays so"


def test_a_server_that_others_started_is_not_ours_to_judge() -> None:
    assert not has_died(session_of(None))
    assert jvm_pid(session_of(None)) is None


def test_plans_are_not_made_again_for_a_jvm_that_is_gone(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(run: DrivenRun, spark: SparkSession) -> Run:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(DrivenRun, "_built", refused)
    run = DrivenRun.__new__(DrivenRun)
    run.__dict__ |= {"_options": SimpleNamespace(patience_s=600.0), "_stop": StopFlag()}
    process.kill()
    failure = run._build(session_of(process))
    assert failure is not None
    assert failure.is_transient, "it looks like what passes"
