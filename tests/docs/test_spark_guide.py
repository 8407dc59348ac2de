"""The guide to Spark works as written: its programs as one, in their order, and its command, against one broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from catchment import Broker
from catchment.cli.options import BOOTSTRAP_VARIABLE

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "spark.md"
TIMEOUT_S = 1200
ADDRESS = "localhost:9092"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def run(command: list[str], folder: Path, address: str) -> str:
    environment = {**os.environ, BOOTSTRAP_VARIABLE: address}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_guide_to_spark_works_as_written(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    with Broker() as broker:
        program = "\n".join(blocks("python")).replace(ADDRESS, broker.bootstrap_servers)
        printed = run([sys.executable, "-c", program], tmp_path, broker.bootstrap_servers)
        (command,) = blocks("sh")
        lag = run([sys.executable, "-m", "catchment.cli", *command.split()[1:]], tmp_path, broker.bootstrap_servers)
    assert printed.count("two coffees") == 1
    # None of the three orders is a reading, and each says why.
    assert len(re.findall(r"^\|\d+ +\|NULL +\|NULL +\|\S.*\|$", printed, re.MULTILINE)) == 3
    assert re.search(r"^catchment-spark-kitchen\torders\t0\t\d+\t\d+\t0$", lag, re.MULTILINE), lag
