"""The group commit: one round of syncs serves every partition that waits for the disk.

While a round is under way, whatever is appended waits for the next one; so a slow device gets few and large rounds, a fast one
many small ones, without a delay to configure. The files of a round are synced all at once and share what a sync costs most: a commit
of the file system's journal, and a flush of the device.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from catchment.ports.disk import Disk, SyncGroup

_logger = logging.getLogger(__name__)


class Committed(Protocol):
    """What takes part in rounds."""

    def begin_sync(self) -> SyncGroup:
        """What is to be synced now."""
        ...

    def end_sync(self, failure: OSError | None) -> None:
        """All of that is on the device, or not all of it."""
        ...


class DirectoryNames:
    """The names in a directory, for one round: renames and removals are durable once it is `done`."""

    __slots__ = ("done", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin_sync(self) -> SyncGroup:
        return SyncGroup((), (self.path,))

    def end_sync(self, failure: OSError | None) -> None:
        if failure is not None:
            _logger.error("what was deleted in %s may come back after a crash: %s", self.path, failure)
        if not self.done.done():
            self.done.set_result(None)


class GroupCommit:
    __slots__ = ("_following", "_later", "_round", "_waiting", "disk")

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._later: dict[Callable[[], Awaitable[None]], None] = {}
        self._following: asyncio.Task[None] | None = None
        self._waiting: dict[Committed, None] = {}
        self._round: asyncio.Task[None] | None = None

    def add(self, member: Committed) -> None:
        """Let the member take part in the next round, which begins at once if none is under way."""
        self._waiting[member] = None
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._run())

    def follow(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do what no request waits for, one after the other, while rounds go on. The work reports its own failures."""
        self._later[work] = None
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._follow())

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        while tasks := [task for task in (self._round, self._following) if task is not None]:
            await asyncio.wait(tasks)

    async def _run(self) -> None:
        try:
            while self._waiting:
                members = list(self._waiting)
                self._waiting.clear()
                await self._sync(members)
        finally:
            self._round = None

    async def _follow(self) -> None:
        try:
            while self._later:
                work = next(iter(self._later))
                del self._later[work]
                await work()
        finally:
            self._following = None

    async def _sync(self, members: Sequence[Committed]) -> None:
        """One round. A fault of ours fails the members concerned; it ends neither the rounds nor the wait of any other member."""
        groups: dict[Committed, SyncGroup] = {}
        for member in members:
            try:
                groups[member] = member.begin_sync()
            except Exception as fault:
                _end(member, _interrupted(fault))
        failures: Sequence[OSError | None]
        try:
            failures = await self.disk.sync_groups(list(groups.values()))
        except BaseException as error:
            # Whether anything has arrived is not known, which is as bad as if nothing had.
            failures = [_interrupted(error)] * len(groups)
            if not isinstance(error, Exception):
                raise
        finally:
            for member, failure in zip(groups, failures, strict=True):
                _end(member, failure)


def _interrupted(cause: BaseException) -> OSError:
    failure = OSError(f"the sync was interrupted: {cause!r}")
    failure.__cause__ = cause
    return failure


def _end(member: Committed, failure: OSError | None) -> None:
    try:
        member.end_sync(failure)
    except Exception:
        _logger.exception("a fault at the end of a sync")
