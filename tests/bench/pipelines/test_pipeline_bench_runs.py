"""The command as people run it, at its smallest: real broker, real session, alerts in real-time mode."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the benchmark of pipelines needs the extra `pipelines`")

from catchment.bench.peers.maven import PeerUnavailable, connector_jars

COMMAND = (sys.executable, "-m", "catchment.cli", "bench", "pipeline")


def bench(*options: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, options)],
        capture_output=True,
        text=True,
        timeout=1400,
        check=False,
        env=os.environ | environment,
    )


def test_alerts_in_real_time_mode_are_timed_and_compared_with_their_limit(tmp_path: Path) -> None:
    try:
        connector_jars()
    except PeerUnavailable as reason:
        pytest.skip(f"Spark's own connector is not available: {reason}")
    numbers = tmp_path / "numbers.json"
    finished = bench("--quick", "--rounds", "1", "--workload", "realtime", "--json", numbers)
    assert finished.returncode == 0, finished.stderr[-2_000:]
    document = json.loads(numbers.read_text())
    assert (document["failures"], document["unavailable"]) == ([], {})
    p50, p99 = document["rows"]
    assert 0 < p50["medians"]["catchment"] <= p99["medians"]["catchment"]
    # The limit applies to the median alone. Whether this machine keeps it is not for a test to say.
    assert (p50["limit"], p99["limit"]) == (15.0, None)
    assert p50["passed"] is not None
    assert p99["passed"] is None
    assert "event to alert in real-time mode" in finished.stdout


def test_without_the_jars_it_is_skipped_with_the_reason(tmp_path: Path) -> None:
    finished = bench("--workload", "realtime", XDG_CACHE_HOME=str(tmp_path), PATH=str(tmp_path))
    assert finished.returncode == 0, finished.stderr[-2_000:]
    said = " ".join(finished.stdout.split())
    assert "realtime-alert-latency was not measured: Spark's own Kafka connector is not here" in said


def test_an_unknown_workload_is_rejected_before_anything_starts() -> None:
    finished = bench("--workload", "no-such")
    assert finished.returncode == 2
    assert "--workload" in finished.stderr
