"""Drivers that are killed at any moment, again and again: every batch is in the lake once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from tests.pipelines.lakes.lake_world import expected, found

from catchment.pipelines.lakes import find_lake

_REPOSITORY = Path(__file__).parents[3]
_LAST_BATCH = 100
_MOST_KILLS = 10
_DEADLINE_S = 600


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_driver_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "lake"
    random = Random(7)
    command = [sys.executable, "-m", "tests.pipelines.lakes.killed_writer", str(path), kind, str(_LAST_BATCH)]
    kills = 0
    code = None
    while code != 0:
        driver = subprocess.Popen(command, cwd=_REPOSITORY)
        if kills < _MOST_KILLS:
            _wait_for_files(path, len(_files(path)) + random.randrange(1, 12), driver)
            driver.kill()
            kills += 1
        code = driver.wait(_DEADLINE_S)

    assert kills > 5, "the driver was done before it could be killed often"
    assert find_lake(str(path)).last_batch("board") == _LAST_BATCH
    assert found(find_lake(str(path)).read_arrow()) == expected(range(_LAST_BATCH + 1))


def _files(path: Path) -> list[str]:
    """All of them, also those that are not yet part of the lake; folders may vanish while we look."""
    return [file for _, _, files in os.walk(path) for file in files]


def _wait_for_files(path: Path, count: int, driver: subprocess.Popen[bytes]) -> None:
    """Until there are so many files: a moment in the middle of a batch."""
    deadline = time.monotonic() + _DEADLINE_S
    while len(_files(path)) < count and driver.poll() is None:
        assert time.monotonic() < deadline, f"{count} files were not written in {_DEADLINE_S} s"
