"""A flag that is set at any moment ends the wait for it, whichever thread sets it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from catchment.pipelines.driving.supervision.stop_flag import StopFlag

SHORT_S = 0.01
LONG_S = 60.0


@contextmanager
def at_line(wanted: int, act: Callable[[], None]) -> Iterator[list[str]]:
    """Do something just before the line of the flag's code that is the `wanted`th to run; the lines that were seen."""
    seen: list[str] = []

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and frame.f_code.co_filename == StopFlag.wait.__code__.co_filename:
            seen.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
            if len(seen) == wanted:
                act()
        return trace

    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(None)


def lines_of_a_wait() -> int:
    flag = StopFlag()
    with at_line(0, lambda: None) as seen:
        flag.wait(0)
    return len(seen)


@pytest.mark.parametrize("line", range(1, lines_of_a_wait() + 1))
def test_a_signal_at_any_line_of_a_wait_ends_it(line: int) -> None:
    flag = StopFlag()
    before = signal.signal(signal.SIGUSR1, lambda *_: flag.set())
    try:
        with at_line(line, lambda: signal.raise_signal(signal.SIGUSR1)):
            assert flag.wait(SHORT_S)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_every_thread_that_waits_wakes_up_and_later_ones_do_not_wait() -> None:
    flag = StopFlag()
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda: woken.append(flag.wait(LONG_S))) for _ in range(3)]
    for thread in threads:
        thread.start()
    flag.set()
    for thread in threads:
        thread.join(LONG_S / 2)
    assert woken == [True] * 3
    assert flag.wait(LONG_S)
    assert flag.is_set()


def test_a_wait_ends_in_time_though_no_thread_sets_it() -> None:
    assert not StopFlag().wait(0.001)
    assert not StopFlag().wait(-1)
