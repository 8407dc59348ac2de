"""The guide to alerts works as written: its pipeline and commands, in their order, and every other declaration is right."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from catchment import Broker
from catchment.cli.options import BOOTSTRAP_VARIABLE
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.realtime.eligibility import reasons_against

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "alerts.md"
TIMEOUT_S = 280


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_the_guide_to_alerts_works_as_written(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")
    (tmp_path / "hosts.yaml").write_text(blocks("yaml")[0])
    script = f'set -e; catchment() {{ "{sys.executable}" -m catchment.cli "$@"; }}\n{blocks("sh")[0]}'
    with Broker() as broker:
        environment = {
            BOOTSTRAP_VARIABLE: broker.bootstrap_servers,
            "CATCHMENT_PIPELINES_HOME": str(tmp_path / "home"),
        }
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"id"')]
    assert [(one["message"], one["event_time"]) for one in found] == [
        ("web-1 is at 0.95", "2026-03-01T12:00:00.000000Z"),
        ("web-1 is at 0.99", "2026-03-01T12:05:00.000000Z"),
    ], done.stdout + done.stderr


@pytest.mark.parametrize("number", range(len(blocks("yaml"))))
def test_every_pipeline_of_the_guide_is_right_as_it_is_written(number: int, tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text(blocks("yaml")[number])
    specification = load(file).specification
    for name, alert in specification.alerts.items():
        if alert.trigger == "realtime":
            assert reasons_against(specification, name) == []
