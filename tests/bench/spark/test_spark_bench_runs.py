"""The command as people run it, at its smallest: real broker, real session, both connectors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from catchment.bench.peers.maven import PeerUnavailable, connector_jars


def test_both_connectors_read_the_same_topic_and_the_ratio_is_in_the_results(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")
    try:
        connector_jars()
    except PeerUnavailable as reason:
        pytest.skip(f"Spark's own connector is not available: {reason}")
    numbers = tmp_path / "numbers.json"
    options = ["--quick", "--rounds", "1", "--workload", "read-value-1KB-plain", "--json", str(numbers)]
    finished = subprocess.run(
        [sys.executable, "-m", "catchment.cli", "bench", "spark", *options],
        capture_output=True,
        text=True,
        timeout=1400,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2_000:]
    document = json.loads(numbers.read_text())
    assert document["failures"] == []
    rate, processor_time = document["rows"]
    for row in (rate, processor_time):
        assert {side: len(rounds) for side, rounds in row["rounds"].items()} == {"catchment": 1, "kafka": 1}
        assert all(value > 0 for value in row["medians"].values())
        assert row["ratios"].keys() == {"kafka"}
    # The bar applies to the rate alone. Whether this machine clears it is not for a test to say.
    assert (rate["bar"], processor_time["bar"]) == (3.0, None)
    assert rate["passed"] is not None
    assert processor_time["passed"] is None
    assert "read 1 KB, value alone" in finished.stdout


def test_an_unknown_broker_or_workload_is_rejected_before_anything_starts() -> None:
    for option, value in (("--broker", "rabbitmq"), ("--workload", "no-such")):
        finished = subprocess.run(
            [sys.executable, "-m", "catchment.cli", "bench", "spark", option, value],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert finished.returncode == 2
        assert option in finished.stderr
