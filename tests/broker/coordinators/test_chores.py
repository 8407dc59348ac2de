"""Chores of coordinators go on, whatever happens to one of them."""

import asyncio

import pytest

from catchment.broker.coordinators.chores import every


async def test_a_failed_chore_is_logged_and_done_again(caplog: pytest.LogCaptureFixture) -> None:
    done = asyncio.Event()
    faults = [OSError(5, "Input/output error"), ZeroDivisionError()]

    async def work() -> None:
        if faults:
            raise faults.pop()
        done.set()

    chore = asyncio.create_task(every(1, work))
    async with asyncio.timeout(30):
        await done.wait()
    chore.cancel()
    assert len(caplog.records) == 2
