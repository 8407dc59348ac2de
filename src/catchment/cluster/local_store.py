"""The coordination store of a lone broker: one process and one directory need no consensus, but every change is durable.

A change is checked, written to the journal and synced before it is acknowledged or visible. Changes that arrive during a sync
share the next one. A journal that has outgrown the nodes it describes is replaced by a snapshot. The number of the snapshot's last
change names the journal that follows it, so replacing the snapshot atomically switches from one pair to the next.
"""

import asyncio
from collections.abc import Callable, Sequence

from kio.schema.errors import ErrorCode

from catchment.cluster.journal import decode_snapshot, encode_snapshot, encode_transaction, frame, replay, whole_frames
from catchment.cluster.node_tree import NodeTree, StagedGroup, StagedTransaction, parent_of
from catchment.ports.coordination import (
    CoordinationError,
    Create,
    Delete,
    Node,
    NoNode,
    Operation,
    OutcomeUnknown,
    SessionLost,
    Set,
)
from catchment.ports.disk import Disk, File, SyncGroup
from catchment.protocol.errors import ApiError

DIRECTORY_NAME = "catchment-metadata"
"""Beside the partitions. It does not end in a number, so it cannot be mistaken for one."""

_SNAPSHOT_NAME = "snapshot"
_JOURNAL_BYTES_BEFORE_SNAPSHOT = 1 << 20

_Results = Sequence[Node | None]
_Waiting = tuple[Sequence[Operation], asyncio.Future[_Results]]


class LocalStore:
    """Implements `ports.coordination.Coordination`. The caller has synced the parent directory, and holds its lock."""

    def __init__(
        self, disk: Disk, directory: str, *, journal_bytes_before_snapshot: int = _JOURNAL_BYTES_BEFORE_SNAPSHOT
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._least_journal_bytes = journal_bytes_before_snapshot
        self._waiting: list[_Waiting] = []
        self._committer: asyncio.Task[None] | None = None
        self._watches: dict[str, dict[Callable[[str], None], None]] = {}
        self._failure: OSError | None = None
        self._is_closed = False
        if not disk.exists(directory):
            disk.make_directory(directory)
            disk.sync_directory(parent_of(directory))
        self._snapshot_bytes = 0
        self._tree = self._read_snapshot()
        self._journal = self._open_journal()
        self._snapshot_due_bytes = max(self._least_journal_bytes, 2 * self._snapshot_bytes)

    async def get(self, path: str) -> Node:
        entry = self._tree.entries.get(path)
        if entry is None:
            raise NoNode(path)
        return entry.node()

    async def children(self, path: str) -> list[str]:
        return self._tree.children(path)

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> Node:
        return await self._single(Create(path, data, ephemeral))

    async def set(self, path: str, data: bytes, version: int | None = None) -> Node:
        return await self._single(Set(path, data, version))

    async def delete(self, path: str, version: int | None = None) -> None:
        await self.multi([Delete(path, version)])

    async def _single(self, operation: Operation) -> Node:
        (node,) = await self.multi([operation])
        assert node is not None
        return node

    async def multi(self, operations: Sequence[Operation]) -> _Results:
        if self._is_closed:
            raise SessionLost(f"{self._directory} is closed")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Results] = loop.create_future()
        self._waiting.append((operations, done))
        if self._committer is None:
            self._committer = loop.create_task(self._commit_waiting())
        return await done

    def watch(self, path: str, changed: Callable[[str], None]) -> Callable[[], None]:
        watching = self._watches.setdefault(path, {})
        watching[changed] = None

        def end() -> None:
            watching.pop(changed, None)

        return end

    def on_session_lost(self, lost: Callable[[], None]) -> None:
        """Never called: the session ends with the process."""

    async def close(self) -> None:
        self._is_closed = True
        if self._committer is not None:
            await self._committer
        self._journal.close()

    async def _commit_waiting(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                try:
                    await self._commit(waiting)
                finally:
                    _settle_rest(waiting, OutcomeUnknown(f"{self._directory}: the commit was interrupted"))
                if self._journal.size >= self._snapshot_due_bytes:
                    await self._write_snapshot()
        finally:
            self._committer = None
            _settle_rest(self._waiting, SessionLost(f"{self._directory}: the store has stopped"))

    async def _commit(self, waiting: list[_Waiting]) -> None:
        group = StagedGroup(self._tree)
        payloads: list[bytes] = []
        staged: list[tuple[asyncio.Future[_Results], _Results]] = []
        for operations, future in waiting:
            transaction = StagedTransaction(group)
            results: _Results
            try:
                results = [transaction.apply(operation) for operation in operations]
            except (CoordinationError, ValueError) as error:
                _fail(future, error)
                continue
            group.add(transaction)
            # A transaction of ephemeral nodes alone is written too: its number must not be used again after a restart.
            payloads.append(encode_transaction(transaction.number, transaction.durable))
            staged.append((future, results))
        if not payloads:
            return
        try:
            await self._write(frame(b"".join(payloads)))
        except OSError as error:
            for future, _ in staged:
                _fail(future, _storage_error(self._directory, error))
            return
        self._tree.merge(group)
        for future, results in staged:
            if not future.done():
                future.set_result(results)
        self._notify_watches(group)

    async def _write(self, data: bytes) -> None:
        if self._failure is not None:
            raise self._failure
        self._journal.append([data])
        try:
            await self._sync(SyncGroup([self._journal]))
        except OSError as error:
            # The kernel may have dropped the pages, so a later sync that succeeds would prove nothing.
            self._failure = error
            raise

    async def _sync(self, group: SyncGroup) -> None:
        (failure,) = await self._disk.sync_groups([group])
        if failure is not None:
            raise failure

    def _notify_watches(self, group: StagedGroup) -> None:
        if not self._watches:
            return
        for path in dict.fromkeys([*group.changes, *(parent_of(path) for path in group.changes)]):
            for changed in list(self._watches.get(path, ())):
                changed(path)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _journal_path(self, after: int) -> str:
        return self._path(f"{after:020d}.journal")

    def _read_snapshot(self) -> NodeTree:
        path = self._path(_SNAPSHOT_NAME)
        if not self._disk.exists(path):
            return NodeTree()
        data = self._disk.read_file(path)
        self._snapshot_bytes = len(data)
        return decode_snapshot(data, path)

    def _open_journal(self) -> File:
        path = self._journal_path(self._tree.last_change)
        for name, _, _ in self._disk.list_directory(self._directory):
            if name != _SNAPSHOT_NAME and self._path(name) != path:
                self._disk.remove_file(self._path(name))
        journal = self._disk.open_file(path)
        self._disk.sync_directory(self._directory)
        end = 0
        for payload, position in whole_frames(journal.read(0, journal.size), path):
            replay(payload, self._tree)
            end = position
        if end < journal.size:
            journal.truncate(end)
            journal.sync()
        return journal

    async def _write_snapshot(self) -> None:
        """Begin a new journal after a snapshot; if the disk fails, the old pair stays and grows."""
        data = encode_snapshot(self._tree)
        target, temporary = self._path(_SNAPSHOT_NAME), self._path(f"{_SNAPSHOT_NAME}.new")
        journal: File | None = None
        try:
            journal = self._disk.open_file(self._journal_path(self._tree.last_change))
            self._disk.remove_file(temporary)
            snapshot = self._disk.open_file(temporary)
            try:
                snapshot.append([data])
                await self._sync(SyncGroup([snapshot], [self._directory]))
            finally:
                snapshot.close()
        except OSError:
            self._snapshot_due_bytes = 2 * self._journal.size
            if journal is not None:
                journal.close()
            return
        try:
            self._disk.rename(temporary, target)
            await self._sync(SyncGroup((), [self._directory]))
        except OSError as error:
            # A restart may find the old pair or the new one, so neither journal may get another change.
            self._failure = error
            journal.close()
            return
        old, self._journal = self._journal, journal
        self._snapshot_due_bytes = max(self._least_journal_bytes, 2 * len(data))
        old.close()
        self._disk.remove_file(old.path)


def _fail(future: asyncio.Future[_Results], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _settle_rest(waiting: list[_Waiting], error: Exception) -> None:
    """Fail the callers that still wait, whatever ended the commit."""
    for _, future in waiting:
        _fail(future, error)
    waiting.clear()


def _storage_error(directory: str, error: OSError) -> ApiError:
    return ApiError(
        ErrorCode.kafka_storage_error,
        f"The cluster's metadata in {directory} could not be written: {error.strerror or error}. "
        "Nothing was changed; check the disk's space and health, then try again.",
    )
