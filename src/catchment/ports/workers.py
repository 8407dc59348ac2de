"""Long work that must not hold up the event loop: in a process or a thread of its own, or between the loop's other work.

Work on the disk is a task that goes in steps: it yields often and returns its result at the end. What runs it decides what
happens between two steps. Work on the bytes of a request goes to a thread: codecs and checksums release the interpreter's
lock, and what is plain Python pauses often, so that the loop has its turn.
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
    """The process that did the work is gone, and the work with it."""


class Worker(Protocol):
    async def run(self, task: Task[Argument, Result], argument: Argument) -> Result:
        """The task's result, or what it raised. One task at a time."""
        ...

    async def rest(self) -> None:
        """Nothing is to be done for a while: let go of what the worker holds. It may be used again."""
        ...


class LoopWorker:
    """Runs tasks on the event loop, one step at a time: for disks that no other process can see, and for simulations."""

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
        """Nothing is held."""


class ProcessWorker:
    """Runs tasks on the real disk in a child process, which starts with the first task and ends with `rest`.

    The child is a program of its own (`worker_process`), not a copy of this one: a script that embeds a broker need not
    be safe to import twice. Task and argument must be picklable, and the task importable.
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
        """The end of its input ends the process. Its pipes are closed and its exit code is taken, or it stays a zombie."""
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
"""What work in a thread calls between short steps."""


class WorkersStopped(Exception):
    """The broker stops, and the work is given up."""


class ThreadWorkers:
    """A few threads for work on bytes. They start when they are first needed.

    What waits for a thread is bounded by its callers: a connection has one request at work, and no other is read meanwhile.
    """

    def __init__(self, threads: int = _THREADS) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._is_stopped = False

    async def run(self, work: Callable[[Pause], Result], *, to_the_end: bool = False) -> Result:
        """The result of the work, or what it raised. With `to_the_end` a caller that is cancelled gets it all the same."""
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
        """Give up what is under way, and do nothing more."""
        self._is_stopped = True
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _pause(self) -> None:
        if self._is_stopped:
            raise WorkersStopped
        # A thread that only offers the lock takes it again before another wakes up: it has to sleep for a moment.
        time.sleep(_PAUSE_SECONDS)


def _start() -> subprocess.Popen[bytes]:
    # In a session of its own the child does not hear the terminal's interrupt, which is for the broker.
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
