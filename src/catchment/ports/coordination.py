"""The metadata store that brokers share: small versioned nodes in a tree, as in ZooKeeper.

A node's parent must exist before the node is created, and a node with children cannot be deleted. An ephemeral node is deleted when
the session that created it ends. Every change gets a number that only grows (ZooKeeper's zxid); a node keeps the one that created it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class CoordinationError(Exception):
    """The base of all errors of a store. The message names the path."""


class NoNode(CoordinationError):
    """The node, or the parent of the node to be created, does not exist."""


class NodeExists(CoordinationError):
    """The node to be created exists already."""


class BadVersion(CoordinationError):
    """The node is not at the version that the change was based on: another client changed it first."""


class NotEmpty(CoordinationError):
    """The node to be deleted has children."""


class SessionLost(CoordinationError):
    """The session is over and its ephemeral nodes are gone: the broker has to register again."""


class OutcomeUnknown(CoordinationError):
    """The change may or may not have happened; reading the store again shows which."""


class Node(NamedTuple):
    data: bytes
    version: int
    """0 at creation, incremented by every `set`."""
    created_by: int
    """The number of the change that created the node."""


class Create(NamedTuple):
    path: str
    data: bytes
    ephemeral: bool = False


class Set(NamedTuple):
    path: str
    data: bytes
    version: int | None = None
    """The version that the change is based on, or None to overwrite any."""


class Delete(NamedTuple):
    path: str
    version: int | None = None


class Check(NamedTuple):
    """A condition on the other operations of a `multi`. It changes nothing."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class Coordination(Protocol):
    async def get(self, path: str) -> Node:
        """The node. Raises `NoNode` if it does not exist."""
        ...

    async def children(self, path: str) -> Sequence[str]:
        """The names of the node's children, sorted. Raises `NoNode` if the node itself does not exist."""
        ...

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> Node: ...

    async def set(self, path: str, data: bytes, version: int | None = None) -> Node: ...

    async def delete(self, path: str, version: int | None = None) -> None: ...

    async def multi(self, operations: Sequence[Operation]) -> Sequence[Node | None]:
        """Apply all of the operations, or none and raise the error of the first that fails.

        Returns the new state of each node, and None for a delete or a check. Each operation sees the changes of those before it.
        """
        ...

    def watch(self, path: str, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call `changed(path)` after each change of the node's data, existence or list of children.

        Several changes may be reported by one call. The returned function ends the watch.
        """
        ...

    def on_session_lost(self, lost: Callable[[], None]) -> None:
        """Call `lost()` once, when the session has expired and its ephemeral nodes are gone."""
        ...

    async def close(self) -> None:
        """End the session. Its ephemeral nodes are deleted."""
        ...
