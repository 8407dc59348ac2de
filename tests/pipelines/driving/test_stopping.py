"""A driver that is asked to stop ends soon, whatever it waits for at that moment: no phase can hold it up."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.pipelines.driving.supervised import wait_for

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from catchment.pipelines.driving.driven_run import STOP_S
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.supervision.supervisor import Limits
from catchment.pipelines.home import Home

PIPELINE: Final = """
pipeline: city
sources:
  reports: {topic: reports, format: text}
sinks:
  - {from: reports, store: "sqlite:///city.db", table: reports}
"""
_DRIVER: Final = Path(__file__).with_name("stopping_driver.py")
DEADLINE_S: Final = 300.0


@pytest.mark.parametrize("how", ["signal", "end of the supervisor"])
@pytest.mark.parametrize("phase", ["spark", "brokers", "batch", "end"])
def test_a_driver_ends_in_every_phase_when_it_is_asked_to(tmp_path: Path, phase: str, how: str) -> None:
    file = tmp_path / "city.yaml"
    file.write_text(PIPELINE)
    Home(tmp_path, "city").folder.mkdir()
    reached = tmp_path / "reached"
    command = [sys.executable, str(_DRIVER), phase, str(reached), "--home", str(tmp_path), "--master", "local[1]"]
    command += [] if how == "signal" else ["--available-now"]
    with subprocess.Popen([*command, str(file)], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as driver:
        wait_for(f"it waits in phase {phase}", lambda: reached.exists() or driver.poll() is not None, DEADLINE_S)
        if how == "signal":
            driver.send_signal(signal.SIGTERM)
        else:
            assert driver.stdin is not None
            driver.stdin.close()
        code = driver.wait(DEADLINE_S)
        assert driver.stderr is not None
        assert code == (ExitCode.DONE if how == "signal" else ExitCode.INTERRUPTED), driver.stderr.read()


def test_the_driver_has_less_time_than_its_supervisor_gives_it() -> None:
    assert STOP_S < Limits().stop_s <= 2.0
