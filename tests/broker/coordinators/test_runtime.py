"""Chores of coordinators go on, whatever happens to one of them."""

import asyncio

import pytest

from catchment.broker.coordinators.runtime import run_periodically


async def test_a_failed_chore_is_logged_and_done_again(caplog: pytest.LogCaptureFixture) -> None:
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
