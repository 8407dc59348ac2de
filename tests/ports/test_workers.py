"""Tasks have the same results on the loop and in a worker process, and no worker process is left behind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.ports.worker_tasks import append_numbers, die, fail, run_forever

from catchment.ports.memory_disk import MemoryDisk
from catchment.ports.workers import LoopWorker, ProcessWorker, WorkerDied


async def test_a_task_on_the_loop_yields_to_other_tasks_between_its_steps() -> None:
    disk = MemoryDisk()
    worker = LoopWorker(disk)
    task = asyncio.create_task(worker.run(append_numbers, ("/numbers", 100)))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 100
    assert await task == os.getpid()
    assert disk.read_file("/numbers").startswith(b"0 1 2 ")
    with pytest.raises(FileNotFoundError, match="no such thing"):
        await worker.run(fail, "/x")
    await worker.rest()


async def test_one_process_runs_task_after_task_and_ends_with_rest(tmp_path: Path) -> None:
    worker = ProcessWorker()
    path = str(tmp_path / "numbers")
    first = await worker.run(append_numbers, (path, 3))
    with pytest.raises(FileNotFoundError, match="no such thing"):
        await worker.run(fail, path)
    assert await worker.run(append_numbers, (path, 2)) == first != os.getpid()
    await worker.rest()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    assert (tmp_path / "numbers").read_bytes() == b"0 1 2 0 1 "
    await worker.rest()


async def test_a_dead_process_is_reported_and_replaced(tmp_path: Path) -> None:
    worker = ProcessWorker()
    with pytest.raises(WorkerDied, match="-9"):
        await worker.run(die, None)
    assert await worker.run(append_numbers, (str(tmp_path / "numbers"), 1)) > 0
    await worker.rest()


async def test_cancelling_a_task_ends_its_process(tmp_path: Path) -> None:
    worker = ProcessWorker()
    path = tmp_path / "started"
    task = asyncio.create_task(worker.run(run_forever, str(path)))
    for _ in range(3000):
        if path.exists():
            break
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(30):
        await worker.rest()
