"""Group commit: one round of syncs serves every partition that has unsynced appends.

What is appended during a round is synced by the next one. So a slow device gets few and large rounds, a fast one many small ones,
without a delay to configure. The files of a round are synced all at once and share the main cost of a sync: a commit of the file
system's journal, and a flush of the device.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from catchment.ports.disk import Disk, SyncGroup

_logger = logging.getLogger(__name__)


class CommitMember(Protocol):
    """What takes part in a round: a partition, or a directory."""

    def begin_sync(self) -> SyncGroup:
        """What to sync now."""
        ...

    def end_sync(self, failure: OSError | None) -> None:
        """It is on the device, or the sync failed."""
        ...


class DirectorySync:
    """One sync of a directory: renames and removals in it are durable once `done` is."""

    __slots__ = ("done", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin_sync(self) -> SyncGroup:
        return SyncGroup((), (self.path,))

    def end_sync(self, failure: OSError | None) -> None:
        if failure is not None:
            _logger.error("the deletions in %s may be undone by a crash: %s", self.path, failure)
        if not self.done.done():
            self.done.set_result(None)


class GroupCommit:
    __slots__ = ("_later", "_later_task", "_round", "_waiting", "disk")

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._later: dict[Callable[[], Awaitable[None]], None] = {}
        self._later_task: asyncio.Task[None] | None = None
        self._waiting: dict[CommitMember, None] = {}
        self._round: asyncio.Task[None] | None = None

    def add(self, member: CommitMember) -> None:
        """Add the member to the next round, which begins at once if none is in progress."""
        self._waiting[member] = None
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._run())

    def run_later(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run work that no request waits for, one after the other, beside the rounds. The work logs its own failures."""
        self._later[work] = None
        if self._later_task is None:
            self._later_task = asyncio.get_running_loop().create_task(self._run_later_work())

    async def idle(self) -> None:
        """Wait until nothing is in progress."""
        while tasks := [task for task in (self._round, self._later_task) if task is not None]:
            await asyncio.wait(tasks)

    async def _run(self) -> None:
        try:
            while self._waiting:
                members = list(self._waiting)
                self._waiting.clear()
                await self._sync(members)
        finally:
            self._round = None

    async def _run_later_work(self) -> None:
        try:
            while self._later:
                work = next(iter(self._later))
                del self._later[work]
                await work()
        finally:
            self._later_task = None

    async def _sync(self, members: Sequence[CommitMember]) -> None:
        """One round. An exception in a member fails that member alone: the round and the other members continue."""
        groups: dict[CommitMember, SyncGroup] = {}
        for member in members:
            try:
                groups[member] = member.begin_sync()
            except Exception as fault:
                _end(member, _interrupted(fault))
        failures: Sequence[OSError | None]
        try:
            failures = await self.disk.sync_groups(list(groups.values()))
        except BaseException as error:
            # Whether anything was synced is unknown, which counts as a failure of all.
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


def _end(member: CommitMember, failure: OSError | None) -> None:
    try:
        member.end_sync(failure)
    except Exception:
        _logger.exception("unexpected error at the end of a sync")
