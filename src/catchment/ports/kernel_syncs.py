"""Asynchronous syncs by Linux AIO: one system call submits any number of files, and each file has its own result.

Linux runs a sync that was submitted with `io_submit` in a kernel thread. All files of a call are synced at once, so that they
share a commit of the file system's journal and a flush of the device. A thread that syncs one file after the other waits for
one commit each. Completions are signalled by an event descriptor that the loop watches, so no thread of ours waits.

Measured on ext4, 24 files with a batch appended to each: one `fdatasync` after the other 11 ms, in four threads 4.4 ms, this way
2.1 ms, `syncfs` 1.3 ms. `syncfs` also waits for the writes of all other processes, and its error names no file.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

_SYSTEM_CALLS: Final = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""io_setup, io_destroy, io_getevents and io_submit, which no C library wraps."""
_REQUEST: Final = struct.Struct("=QIiHhIQQqQII")
_EVENT: Final = struct.Struct("=QQqq")
_SYNC, _SYNC_DATA = 2, 3
_WITH_EVENT_DESCRIPTOR: Final = 1
_MOST_UNDER_WAY: Final = 512


class Target(NamedTuple):
    """What to sync: the entries of a directory, or the data of a file."""

    descriptor: int
    is_directory: bool = False


class Submitted(NamedTuple):
    taken: int
    outcomes: "asyncio.Future[list[OSError | None]]"


class _Round:
    __slots__ = ("done", "left", "outcomes")

    def __init__(self, count: int, done: "asyncio.Future[list[OSError | None]]") -> None:
        self.outcomes: list[OSError | None] = [None] * count
        self.left = count
        self.done = done


class KernelSyncs:
    """One AIO context, for one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raises OSError if the kernel, or the sandbox of this process, does not support it."""
        calls = _SYSTEM_CALLS.get(platform.machine())
        if calls is None or sys.platform != "linux" or sys.byteorder != "little":
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        setup, self._destroy, self._get_events, self._submit = calls
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._context = ctypes.c_ulong(0)
        if self._call(setup, _MOST_UNDER_WAY, ctypes.byref(self._context)) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._event_descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._requests = ctypes.create_string_buffer(_MOST_UNDER_WAY * _REQUEST.size)
        first = ctypes.addressof(self._requests)
        self._pointers = (ctypes.c_void_p * _MOST_UNDER_WAY)(
            *(first + index * _REQUEST.size for index in range(_MOST_UNDER_WAY))
        )
        self._events = ctypes.create_string_buffer(_MOST_UNDER_WAY * _EVENT.size)
        self._no_time = (ctypes.c_long * 2)(0, 0)
        self._loop = loop
        self._rounds: dict[int, _Round] = {}
        self._under_way = 0
        self._last_round = 0

    def submit(self, targets: Sequence[Target]) -> Submitted | None:
        """Start to sync all targets at once. The kernel may accept only the first few, or none at all (None).

        The descriptors may be closed at once, because the kernel holds references to the files.
        """
        count = min(len(targets), _MOST_UNDER_WAY - self._under_way)
        self._last_round = number = (self._last_round + 1) & 0xFFFFFFFF
        for index in range(count):
            descriptor, is_directory = targets[index]
            _REQUEST.pack_into(
                self._requests,
                index * _REQUEST.size,
                *(number << 32 | index, 0, 0, _SYNC if is_directory else _SYNC_DATA, 0, descriptor),
                *(0, 0, 0, 0, _WITH_EVENT_DESCRIPTOR, self._event_descriptor),
            )
        taken = int(self._call(self._submit, self._context, ctypes.c_long(count), self._pointers)) if count else 0
        if taken <= 0:
            return None
        current = self._rounds[number] = _Round(taken, self._loop.create_future())
        if not self._under_way:
            self._loop.add_reader(self._event_descriptor, self._reap)
        self._under_way += taken
        return Submitted(taken, current.done)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event_descriptor)
        count = int(
            self._call(
                self._get_events,
                self._context,
                ctypes.c_long(0),
                ctypes.c_long(_MOST_UNDER_WAY),
                self._events,
                self._no_time,
            )
        )
        for index in range(count):
            tag, _, result, _ = _EVENT.unpack_from(self._events, index * _EVENT.size)
            current = self._rounds[tag >> 32]
            if result < 0:
                current.outcomes[tag & 0xFFFFFFFF] = OSError(-result, os.strerror(-result))
            current.left -= 1
            if not current.left:
                del self._rounds[tag >> 32]
                if not current.done.done():
                    current.done.set_result(current.outcomes)
        self._under_way -= max(count, 0)
        if not self._under_way:
            self._loop.remove_reader(self._event_descriptor)

    def close(self) -> None:
        """Destroy the context. The kernel finishes the syncs in progress, whose results are lost."""
        self._call(self._destroy, self._context)
        os.close(self._event_descriptor)


class DeviceSyncs:
    """Syncs in the kernel, and in a thread what the kernel does not accept."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._kernel: KernelSyncs | None = None
        self._kernel_loop: asyncio.AbstractEventLoop | None = None

    def submit(self, targets: Sequence[Target]) -> "list[asyncio.Future[list[OSError | None]]]":
        """Start to sync all targets. The futures together have one result for each target, in order."""
        loop = asyncio.get_running_loop()
        kernel = self._kernel_of(loop)
        submitted = None if kernel is None else kernel.submit(targets)
        if submitted is not None and submitted.taken == len(targets):
            return [submitted.outcomes]
        taken = 0 if submitted is None else submitted.taken
        duplicates = [Target(os.dup(target.descriptor), target.is_directory) for target in targets[taken:]]
        in_thread = loop.run_in_executor(self._threads, _sync_and_close, duplicates)
        return [in_thread] if submitted is None else [submitted.outcomes, in_thread]

    def _kernel_of(self, loop: asyncio.AbstractEventLoop) -> KernelSyncs | None:
        if self._kernel_loop is not loop:
            if self._kernel is not None:
                self._kernel.close()
            self._kernel, self._kernel_loop = None, loop
            with contextlib.suppress(OSError):
                self._kernel = KernelSyncs(loop)
        return self._kernel


def _sync_and_close(targets: Sequence[Target]) -> list[OSError | None]:
    outcomes: list[OSError | None] = []
    for descriptor, is_directory in targets:
        try:
            (os.fsync if is_directory else os.fdatasync)(descriptor)
            outcomes.append(None)
        except OSError as error:
            outcomes.append(error)
        finally:
            os.close(descriptor)
    return outcomes
