"""Metrics: documented, rendered in Prometheus's format, served on demand."""

import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from catchment.ports import telemetry
from catchment.ports.telemetry import METRICS, Exporter, Metric, Reading, render_reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
SAMPLE = [
    Reading(telemetry.BYTES_IN, 7),
    Reading(telemetry.LOG_END, 3, ("t", "0")),
    Reading(telemetry.LOG_END, 4, ("t", "1")),
]


def test_every_metric_is_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == render_reference(), "run `make docs`"
    defined = [value for value in vars(telemetry).values() if isinstance(value, Metric)]
    assert set(defined) == set(METRICS)
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.kind} |" in page
        assert metric.name.endswith("_total") == (metric.kind == "counter")


def test_readings_are_rendered_in_prometheus_format() -> None:
    lines = Exporter(lambda: SAMPLE).render().decode().splitlines()
    assert "# TYPE kafka_server_brokertopicmetrics_bytesin_total counter" in lines
    assert "kafka_server_brokertopicmetrics_bytesin_total 7.0" in lines
    assert 'kafka_log_log_logendoffset{partition="1",topic="t"} 4.0' in lines


def test_metrics_are_served_until_closed() -> None:
    server = Exporter(lambda: SAMPLE).serve("127.0.0.1", 0)
    try:
        with urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as response:
            assert b"bytesin_total 7.0" in response.read()
    finally:
        server.close()
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10)


def test_nothing_is_imported_before_it_is_needed() -> None:
    program = "import sys, catchment.ports.telemetry; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
