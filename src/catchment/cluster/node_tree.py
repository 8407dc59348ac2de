"""The nodes of the local store in memory, and the transactions that are staged on top of them before they are written.

A group of transactions is staged: each sees the ones before it, none is visible to readers. Once the group is on the disk it
is merged. If the write fails it is dropped, and nothing has changed.
"""

from typing import NamedTuple

from catchment.ports.coordination import (
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
)


class Entry(NamedTuple):
    data: bytes
    version: int
    created_by: int
    ephemeral: bool
    child_count: int

    def node(self) -> Node:
        return Node(self.data, self.version, self.created_by)


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class NodeTree:
    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {"/": Entry(b"", 0, 0, False, 0)}
        self._children: dict[str, dict[str, None]] = {}
        self.last_change = 0

    def children(self, path: str) -> list[str]:
        if path not in self.entries:
            raise NoNode(path)
        return sorted(self._children.get(path, ()))

    def merge(self, group: "StagedGroup") -> None:
        for path, entry in group.changes.items():
            if entry is not None:
                self.put(path, entry)
            elif path in self.entries:
                del self.entries[path]
                self._children.get(parent_of(path), {}).pop(path.rpartition("/")[2], None)
                self._children.pop(path, None)
        self.last_change = group.last_change

    def put(self, path: str, entry: Entry) -> None:
        if path not in self.entries:
            self._children.setdefault(parent_of(path), {})[path.rpartition("/")[2]] = None
        self.entries[path] = entry


class StagedGroup:
    """Transactions that are written together."""

    def __init__(self, tree: NodeTree) -> None:
        self._tree = tree
        self.changes: dict[str, Entry | None] = {}
        self.last_change = tree.last_change

    def entry(self, path: str) -> Entry | None:
        return self.changes[path] if path in self.changes else self._tree.entries.get(path)

    def add(self, transaction: "StagedTransaction") -> None:
        self.changes.update(transaction.changes)
        self.last_change = transaction.number


class StagedTransaction:
    """One `multi`, staged on top of a group. It changes the group only when it is added to it."""

    def __init__(self, group: StagedGroup) -> None:
        self._group = group
        self.number = group.last_change + 1
        self.changes: dict[str, Entry | None] = {}
        self.durable: list[Create | Set | Delete] = []
        """The changes that the journal keeps: an ephemeral node ends with the process."""

    def apply(self, operation: Operation) -> Node | None:
        match operation:
            case Create():
                return self._create(operation)
            case Set():
                return self._set(operation)
            case Delete():
                self._delete(operation)
            case Check():
                self._existing(operation.path, operation.version)
        return None

    def _entry(self, path: str) -> Entry | None:
        return self.changes[path] if path in self.changes else self._group.entry(path)

    def _existing(self, path: str, version: int | None) -> Entry:
        entry = self._entry(path)
        if entry is None:
            raise NoNode(path)
        if version is not None and version != entry.version:
            raise BadVersion(f"{path} is at version {entry.version}, not {version}")
        return entry

    def _create(self, operation: Create) -> Node:
        path = operation.path
        if not path.startswith("/") or path.endswith("/") or "//" in path:
            raise ValueError(f"{path!r} is not the path of a node")
        if self._entry(path) is not None:
            raise NodeExists(path)
        parent = self._existing(parent_of(path), None)
        if parent.ephemeral:
            raise CoordinationError(
                f"{path} cannot be created: its parent is ephemeral, and such a node has no children"
            )
        self.changes[parent_of(path)] = parent._replace(child_count=parent.child_count + 1)
        entry = Entry(bytes(operation.data), 0, self.number, operation.ephemeral, 0)
        self.changes[path] = entry
        if not operation.ephemeral:
            self.durable.append(operation)
        return entry.node()

    def _set(self, operation: Set) -> Node:
        entry = self._existing(operation.path, operation.version)
        changed = entry._replace(data=bytes(operation.data), version=entry.version + 1)
        self.changes[operation.path] = changed
        if not entry.ephemeral:
            self.durable.append(operation)
        return changed.node()

    def _delete(self, operation: Delete) -> None:
        entry = self._existing(operation.path, operation.version)
        if entry.child_count:
            raise NotEmpty(f"{operation.path} has {entry.child_count} children")
        parent = self._existing(parent_of(operation.path), None)
        self.changes[parent_of(operation.path)] = parent._replace(child_count=parent.child_count - 1)
        self.changes[operation.path] = None
        if not entry.ephemeral:
            self.durable.append(operation)
