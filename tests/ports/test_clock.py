"""The clocks: one that follows the machine, one that stands still."""

from __future__ import annotations

import time

from catchment.ports.clock import ManualClock, SystemClock


def test_the_system_clock_returns_the_time_in_milliseconds() -> None:
    before_s = time.time()
    now_ms = SystemClock().now_ms()
    assert int(before_s * 1000) <= now_ms <= int(time.time() * 1000)


def test_the_system_clock_s_seconds_never_go_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_s() for _ in range(100)]
    assert readings == sorted(readings)


def test_a_manual_clock_moves_only_when_advanced() -> None:
    clock = ManualClock(now_ms=1_000_000)
    assert (clock.now_ms(), clock.monotonic_s()) == (1_000_000, 0.0)
    clock.advance(1500)
    assert (clock.now_ms(), clock.monotonic_s()) == (1_001_500, 1.5)
