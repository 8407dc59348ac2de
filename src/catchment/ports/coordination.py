"""The store through which brokers agree: small versioned nodes in a tree, as ZooKeeper has them.

A node's parent must exist before it, and a node with children cannot go. An ephemeral node lives as long as the session that
made it. Every change gets a number that rises through the whole life of the store; a node remembers the one that created it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class CoordinationError(Exception):
    """The base of what a store says no with; its text names the path."""


class NoNode(CoordinationError):
    """The node, or the parent of a node to be created, is not there."""


class NodeExists(CoordinationError):
    """The node to be created is there already."""


class BadVersion(CoordinationError):
    """The node is not at the version that the change was based on: somebody else was faster."""


class NotEmpty(CoordinationError):
    """The node to be deleted has children."""


class SessionLost(CoordinationError):
    """The session is over and its ephemeral nodes are gone: a broker must register anew."""


class OutcomeUnknown(CoordinationError):
    """The change may or may not have happened; only reading the store again can tell."""


class Node(NamedTuple):
    data: bytes
    version: int
    """0 at creation, one more with every set."""
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
    """No change, but a condition on the others in a `multi`."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class Coordination(Protocol):
    async def get(self, path: str) -> Node:
        """The node, or `NoNode`."""
        ...

    async def children(self, path: str) -> Sequence[str]:
        """The names of the node's children, in order; `NoNode` if the node itself is not there."""
        ...

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> Node: ...

    async def set(self, path: str, data: bytes, version: int | None = None) -> Node: ...

    async def delete(self, path: str, version: int | None = None) -> None: ...

    async def multi(self, operations: Sequence[Operation]) -> Sequence[Node | None]:
        """All of the operations or, raising the first one's failure, none.

        Answers the new state of each node, and None for a delete or a check. Each operation sees the ones before it.
        """
        ...

    def watch(self, path: str, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call `changed(path)` after each change of the node's data, existence or list of children.

        Several changes may be told as one. The function returned ends the watch.
        """
        ...

    def on_session_lost(self, lost: Callable[[], None]) -> None:
        """Call `lost()` once, when the session's ephemeral nodes are no longer this process's own."""
        ...

    async def close(self) -> None:
        """End the session; its ephemeral nodes go."""
        ...
