"""Long work that must not block the event loop: it runs in another process, in a thread, or in short steps on the loop.

Work on the disk is a task that runs in steps: a generator that yields often and returns its result. The worker decides what
happens between two steps. Work on the bytes of a request runs in a thread: codecs and checksums release the interpreter's
lock, and plain Python code pauses often, so that the loop can run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Final, Protocol, TypeVar

from catchment.ports.disk import Disk

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Task = Callable[[Disk, Argument], Generator[None, None, Result]]

_LENGTH: Final = struct.Struct(">Q")
_END_SECONDS: Final = 5.0
_THREADS: Final = 2
_PAUSE_SECONDS: Final = 0.0001


class WorkerDied(Exception):
    """The worker process ended before it returned a result."""


class Worker(Protocol):
    async def run(self, task: Task[Argument, Result], argument: Argument) -> Result:
        """Return the task's result, or raise what it raised. One task at a time."""
        ...

    async def rest(self) -> None:
        """Release what the worker holds, because nothing is to be done for a while. It may be used again."""
        ...


class LoopWorker:
    """Runs tasks on the event loop, one step at a time: for memory disks and simulations."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def run(self, task: Task[Argument, Result], argument: Argument) -> Result:
        steps = task(self._disk, argument)
        try:
            while True:
                next(steps)
                await asyncio.sleep(0)
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            steps.close()

    async def rest(self) -> None:
        """Nothing to release."""


class ProcessWorker:
    """Runs tasks on the real disk in a child process, which starts with the first task and ends with `rest`.

    The task must be importable, and the argument picklable. This is no `concurrent.futures.ProcessPoolExecutor`, for two reasons:
    its child processes import the main module again, so a script that embeds a broker would have to be written for that, and it
    cannot end the process of a task that is cancelled. The child here is a program of its own, `worker_process`.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, task: Task[Argument, Result], argument: Argument) -> Result:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="catchment-worker")
        message = pickle.dumps((task, argument))
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._thread, self._exchange, message)
        except asyncio.CancelledError:
            self._kill()
            raise
        succeeded, outcome = pickle.loads(answer)
        if not succeeded:
            raise outcome
        result: Result = outcome
        return result

    async def rest(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._end)
            thread.shutdown(wait=False)

    def _exchange(self, message: bytes) -> bytes:
        process = self._process
        if process is None:
            process = self._process = _start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            write_message(process.stdin, message)
            answer = read_message(process.stdout)
        except OSError:
            answer = None
        if answer is None:
            self._end()
            raise WorkerDied(f"the process ended with code {process.returncode}")
        return answer

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()

    def _end(self) -> None:
        """Close the input of the process, which ends it. Its exit code is read, or it would stay a zombie."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


Pause = Callable[[], None]
"""Work in a thread calls this between short steps."""


class WorkersStopped(Exception):
    """The broker stops, so the work was not finished."""


class ThreadWorkers:
    """A few threads for work on bytes, started when they are first needed.

    The callers bound the queue: a connection has at most one request here, and no other is read meanwhile.
    """

    def __init__(self, threads: int = _THREADS) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._is_stopped = False

    async def run(self, work: Callable[[Pause], Result], *, to_the_end: bool = False) -> Result:
        """Return the result of the work, or raise what it raised. With `to_the_end` the call waits for it even if it is cancelled."""
        if self._is_stopped:
            raise WorkersStopped
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="catchment-batch")
        done = asyncio.get_running_loop().run_in_executor(self._pool, work, self._pause)
        if not to_the_end:
            return await done
        while not done.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([done])
        return done.result()

    def stop(self) -> None:
        """Abandon the work in progress and accept no more."""
        self._is_stopped = True
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _pause(self) -> None:
        if self._is_stopped:
            raise WorkersStopped
        # A thread that only releases the lock takes it again before another wakes up, so it has to sleep for a moment.
        time.sleep(_PAUSE_SECONDS)


def _start() -> subprocess.Popen[bytes]:
    # In a session of its own the child does not get the terminal's interrupt, which is meant for the broker.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "catchment.ports.worker_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        start_new_session=True,
    )


def write_message(stream: IO[bytes], message: bytes) -> None:
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes | None:
    """The next message, or None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = stream.read(length)
    return message if len(message) == length else None
