"""The machine's file system, with a bound on open descriptors.

A broker with thousands of partitions has more files than it may have descriptors. A `RealFile` opens its descriptor when it
is used, and the disk closes the least recently used one once the bound is reached. The path may name another file by then, so
a reopened file is checked to be the same one. A sync is submitted to the kernel, which holds the file itself, or uses a
duplicate of the descriptor, so closing never races with a sync.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import resource
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from typing_extensions import Buffer

from catchment.ports.disk import DirectoryEntry, DirectoryLock, File, Replacement, StaleFile, SyncGroup, TornWrite
from catchment.ports.kernel_syncs import DeviceSyncs, Target

_PIECES_A_WRITE = 1024
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_DESCRIPTORS_FOR_SOCKETS = 512
_LARGE_FILE_BYTES = 1 << 20
_SYNC_THREADS = 4
_SYNCS_AT_ONCE = 256


class RealFile:
    __slots__ = ("_descriptor", "_disk", "_identity", "is_closed", "path", "size")

    def __init__(self, disk: "RealDisk", path: str) -> None:
        self._disk = disk
        self._descriptor = -1
        self.is_closed = False
        self.path = path
        self._open(os.O_CREAT)
        status = os.fstat(self._descriptor)
        self._identity = (status.st_dev, status.st_ino)
        self.size = status.st_size

    def descriptor(self) -> int:
        """The open descriptor, marked as the most recently used."""
        if self._descriptor >= 0:
            self._disk.used(self)
        else:
            self._open_again()
        return self._descriptor

    def _open_again(self) -> None:
        if self.is_closed:
            raise StaleFile(self.path)
        try:
            self._open(0)
        except FileNotFoundError as error:
            raise StaleFile(self.path) from error
        status = os.fstat(self._descriptor)
        if (status.st_dev, status.st_ino) != self._identity:
            self.close()
            raise StaleFile(self.path)

    def _open(self, flags: int) -> None:
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | flags, 0o644)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self._disk.opened(self)

    def append(self, pieces: Sequence[Buffer]) -> None:
        descriptor = self.descriptor()
        total = sum([memoryview(piece).nbytes for piece in pieces])
        try:
            written = os.pwritev(descriptor, pieces, self.size) if len(pieces) <= _PIECES_A_WRITE else 0
            if written < total:
                self._append_rest(descriptor, pieces, written, total)
        except OSError as error:
            # A partial batch must not stay: later appends would follow it, and recovery would truncate both.
            try:
                os.ftruncate(descriptor, self.size)
            except OSError:
                raise TornWrite(error.errno, error.strerror, self.path) from error
            raise
        self.size += total

    def _append_rest(self, descriptor: int, pieces: Sequence[Buffer], written: int, total: int) -> None:
        """Continue after a short write, or write what is too much for one call."""
        views = _after([memoryview(piece).cast("B") for piece in pieces], written)
        while written < total:
            count = os.pwritev(descriptor, views[:_PIECES_A_WRITE], self.size + written)
            if count == 0:
                raise OSError(errno.EIO, "the disk accepted no bytes", self.path)
            written += count
            views = _after(views, count)

    def read(self, position: int, size: int) -> bytes:
        return _read_all(self.descriptor(), position, size)

    def would_block(self, position: int, size: int) -> bool:
        """Read the first and the last byte, on condition that they are in the page cache."""
        if _NO_WAIT is None or size == 0:
            return False
        descriptor = self.descriptor()
        probe = [bytearray(1)]
        try:
            os.preadv(descriptor, probe, position, _NO_WAIT)
            os.preadv(descriptor, probe, position + size - 1, _NO_WAIT)
        except BlockingIOError:
            return True
        except OSError:
            # The file system does not support the question: read as if it were cached.
            return False
        return False

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor(), size)
        self.size = size

    def sync(self) -> None:
        if not self.is_closed:
            os.fdatasync(self.descriptor())

    def close(self) -> None:
        self.is_closed = True
        self.release()

    def release(self) -> None:
        """Close the descriptor. The next use opens the file again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._disk.closed(self)
            # Linux frees the descriptor even if the close reports an error.
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _after(views: list[memoryview], count: int) -> list[memoryview]:
    """The rest of the pieces after their first `count` bytes."""
    for index, view in enumerate(views):
        if count < view.nbytes:
            return [view[count:], *views[index + 1 :]]
        count -= view.nbytes
    return []


class _FileLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealDisk:
    def __init__(self, max_open_files: int | None = None) -> None:
        if max_open_files is None:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            allowed = 1 << 16 if soft == resource.RLIM_INFINITY else soft
            max_open_files = max(64, min(8192, (allowed - _DESCRIPTORS_FOR_SOCKETS) // 2))
        self._max_open_files = max_open_files
        self._open: OrderedDict[RealFile, None] = OrderedDict()
        self._threads = ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="catchment-sync")
        self._syncs = DeviceSyncs(self._threads)

    @property
    def open_files(self) -> int:
        return len(self._open)

    def opened(self, file: RealFile) -> None:
        self._open[file] = None
        while len(self._open) > self._max_open_files:
            oldest = next(iter(self._open))
            oldest.release()

    def used(self, file: RealFile) -> None:
        self._open.move_to_end(file)

    def closed(self, file: RealFile) -> None:
        self._open.pop(file, None)

    def open_file(self, path: str) -> RealFile:
        return RealFile(self, path)

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        with os.scandir(path) as entries:
            found = [
                DirectoryEntry(entry.name, directory := entry.is_dir(), 0 if directory else entry.stat().st_size)
                for entry in entries
            ]
        return sorted(found)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_file(self, path: str) -> None:
        """Remove the directory entry at once. A thread frees the space of a large file, since that takes a while."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            is_large = os.fstat(descriptor).st_size > _LARGE_FILE_BYTES
            os.remove(path)
        except BaseException:
            os.close(descriptor)
            raise
        if is_large:
            self._threads.submit(os.close, descriptor)
        else:
            os.close(descriptor)

    def remove_tree(self, path: str) -> None:
        for entry in self.list_directory(path):
            inner = os.path.join(path, entry.name)
            if entry.is_directory:
                self.remove_tree(inner)
            else:
                self.remove_file(inner)
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def sync_directory(self, path: str) -> None:
        descriptor = _open_directory(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            self.remove_file(temporary)
            raise
        self.sync_directory(os.path.dirname(path))

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def lock_directory(self, path: str) -> DirectoryLock:
        descriptor = os.open(os.path.join(path, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # The first lock excludes a second broker in this process, the second one a JVM on the same directory.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise BlockingIOError(error.errno, "the directory is in use by another broker", path) from error
        return _FileLock(descriptor)

    async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
        failures: list[OSError | None] = [None] * len(groups)
        wanted: list[tuple[int, File | str]] = []
        for number, group in enumerate(groups):
            wanted += [(number, path) for path in group.directories]
            # A closed file needs no sync, see `File.sync`.
            wanted += [(number, file) for file in group.files if not file.is_closed]
        # No more at once than there are descriptors: none may be closed by the bound before it is submitted.
        step = min(self._max_open_files, _SYNCS_AT_ONCE)
        for start in range(0, len(wanted), step):
            await self._sync_some(wanted[start : start + step], failures)
        return failures

    async def _sync_some(self, wanted: list[tuple[int, File | str]], failures: list[OSError | None]) -> None:
        numbers: list[int] = []
        targets: list[Target] = []
        directories: list[int] = []
        for number, target in wanted:
            try:
                if isinstance(target, RealFile):
                    targets.append(Target(target.descriptor()))
                elif isinstance(target, str):
                    directories.append(_open_directory(target))
                    targets.append(Target(directories[-1], is_directory=True))
                numbers.append(number)
            except OSError as error:
                failures[number] = failures[number] or error
        try:
            rounds = self._syncs.submit(targets)
        finally:
            for descriptor in directories:
                os.close(descriptor)
        outcomes = [outcome for each in rounds for outcome in await each]
        for number, outcome in zip(numbers, outcomes, strict=True):
            failures[number] = failures[number] or outcome

    async def sync_files(self, files: Sequence[File]) -> None:
        (failure,) = await self.sync_groups([SyncGroup(files)])
        if failure is not None:
            raise failure

    async def replace_files(self, replacements: Sequence[Replacement]) -> None:
        written: list[RealFile] = []
        try:
            for path, data in replacements:
                file = RealFile(self, f"{path}.new")
                written.append(file)
                file.truncate(0)
                file.append([data])
            await self.sync_files(written)
            for file, (path, _) in zip(written, replacements, strict=True):
                os.replace(file.path, path)
        except OSError:
            for file in written:
                self.remove_file(file.path)
            raise
        finally:
            for file in written:
                file.close()
        directories = dict.fromkeys(os.path.dirname(path) for path, _ in replacements)
        (failure,) = await self.sync_groups([SyncGroup((), list(directories))])
        if failure is not None:
            raise failure

    async def read_later(self, file: File, position: int, size: int) -> bytes:
        if not isinstance(file, RealFile):
            return file.read(position, size)
        duplicate = os.dup(file.descriptor())
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, _read_and_close, duplicate, position, size
        )


def _read_and_close(descriptor: int, position: int, size: int) -> bytes:
    try:
        return _read_all(descriptor, position, size)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, position: int, size: int) -> bytes:
    data = os.pread(descriptor, size, position)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def _open_directory(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
