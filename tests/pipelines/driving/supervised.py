"""A supervisor with a fake driver, run on a thread or in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from catchment.pipelines.driving.supervision.supervisor import Limits, Supervisor
from catchment.pipelines.home import Home

_DRIVER: Final = Path(__file__).with_name("fake_driver.py")
QUICK: Final = Limits(starts=3, window_s=60.0, first_pause_s=0.01, longest_pause_s=0.05, stop_s=1.0)
DEADLINE_S: Final = 300.0


def supervisor(home: Home, what: str, *, is_endless: bool = True, limits: Limits = QUICK) -> Supervisor:
    """A supervisor whose driver does what the test asks for."""
    facts = {"pipeline": home.pipeline, "version": 1, "master": "local[2]"}
    command = [sys.executable, str(_DRIVER), what, str(home.root)]
    return Supervisor(home, command, facts, limits=limits, is_endless=is_endless)


def starts(home: Home) -> list[tuple[int, int]]:
    """The processes of each driver that was started, and of its child."""
    file = home.root / "starts"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(driver), int(child)) for driver, child in (line.split() for line in lines)]


def is_alive(process: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_for(what: str, holds: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Until it holds; fails when it does not for too long."""
    # As a program, this file does not find the other tests.
    from tests.waiting import wait_until

    wait_until(holds, f"never happened: {what}", deadline_s)


if __name__ == "__main__":
    # As a program: the supervisor that another process may kill.
    os._exit(supervisor(Home(Path(sys.argv[2]), "city"), sys.argv[1]).run())
