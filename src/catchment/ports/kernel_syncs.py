"""Syncs that the kernel does by itself: one system call hands over any number of files, and each gets its own outcome.

Linux runs a sync that was submitted with `io_submit` in a thread of the kernel. All files of a round are synced at once, so that they
share a commit of the file system's journal and a flush of the device; a thread of ours that syncs one file after the other waits
for one commit each. The completions come back over an event descriptor that the loop watches: no thread of ours waits at all.

Measured on ext4, 24 files with a batch appended to each: one `fdatasync` after the other 11 ms, in four threads 4.4 ms, so 2.1 ms,
`syncfs` 1.3 ms. `syncfs` also waits for what all other processes have written, and its error names no file.
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
from typing import Final, NamedTuple

_SYSTEM_CALLS: Final = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""io_setup, io_destroy, io_getevents and io_submit, which no C library wraps."""
_REQUEST: Final = struct.Struct("=QIiHhIQQqQII")
_EVENT: Final = struct.Struct("=QQqq")
_SYNC, _SYNC_DATA = 2, 3
_WITH_EVENT_DESCRIPTOR: Final = 1
_MOST_UNDER_WAY: Final = 512


class Target(NamedTuple):
    """What to sync: of a directory its names, of a file its data."""

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
    """One context of the kernel, for one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """OSError where the kernel, or the sandbox around this process, does not offer it."""
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
        """Begin to sync all targets at once. The kernel may take the first few alone, or none at all (None).

        The descriptors may be closed at once, because the kernel holds the files.
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
        """Give the context back; the kernel finishes what is under way, and reports it to none."""
        self._call(self._destroy, self._context)
        os.close(self._event_descriptor)
