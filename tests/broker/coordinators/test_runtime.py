"""Periodic tasks of coordinators continue after a failure."""

import asyncio

import pytest

from catchment.broker.coordinators.runtime import run_periodically


async def test_a_failed_periodic_task_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    done = asyncio.Event()
    faults = [OSError(5, "Input/output error"), ZeroDivisionError()]

    async def work() -> None:
        if faults:
            raise faults.pop()
        done.set()

    task = asyncio.create_task(run_periodically(1, work))
    async with asyncio.timeout(30):
        await done.wait()
    task.cancel()
    assert len(caplog.records) == 2
