"""Who runs is noted for as long as it runs, and what a killed run leaves does not stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.pipelines.driving.supervised import starts, wait_for

from catchment.pipelines.driving.supervision.run_file import (
    AlreadyRunning,
    RunLock,
    is_running,
    noted_homes,
    running_homes,
)
from catchment.pipelines.home import Home

_SUPERVISED = Path(__file__).parents[1] / "supervised.py"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", "city")


def test_a_run_is_noted_for_as_long_as_it_has_the_lock(home: Home) -> None:
    assert running_homes() == []
    lock = RunLock(home)
    assert running_homes() == [home]
    lock.close()
    assert list(noted_homes()) == []


def test_who_does_not_get_the_lock_does_not_hide_who_has_it(home: Home) -> None:
    lock = RunLock(home)
    with pytest.raises(AlreadyRunning):
        RunLock(home)
    assert running_homes() == [home]
    lock.close()


def test_what_a_killed_run_has_left_is_removed_by_who_looks(home: Home) -> None:
    with subprocess.Popen([sys.executable, str(_SUPERVISED), "wait", str(home.root)]) as process:
        wait_for("the driver starts", lambda: len(starts(home)) > 0)
        assert running_homes() == [home]
        process.kill()
    # Its driver stops by itself, and has the lock until then.
    wait_for("the lock is free", lambda: not is_running(home))
    assert list(noted_homes()) == [home]
    assert running_homes() == []
    assert list(noted_homes()) == []


def test_a_home_that_was_deleted_is_forgotten(home: Home) -> None:
    lock = RunLock(home)
    for one in home.folder.iterdir():
        one.unlink()
    assert running_homes() == []
    lock.close()


def test_what_stands_in_the_way_of_the_folder_does_not_stop_a_run(home: Home, state: Path) -> None:
    state.write_text("a file where the folder should be")
    lock = RunLock(home)
    assert running_homes() == []
    lock.close()
