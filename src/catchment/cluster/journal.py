"""The bytes of the local store: frames with a checksum, holding transactions (the journal) or all nodes (the snapshot).

A group of transactions is one frame, and the next frame is written only after this one is on the device. So a crash can tear
the last frame alone, and recovery may cut it, since it was never acknowledged. A damaged frame with a whole one behind it is no
torn write but a bad disk. Cutting there would lose what was acknowledged, so an operator has to decide.
"""

from collections.abc import Iterator, Sequence
from struct import Struct

from catchment.cluster.node_tree import Entry, NodeTree, StagedGroup, StagedTransaction
from catchment.ports.coordination import Create, Delete, Set
from catchment.ports.disk import UnusableDirectory
from catchment.protocol.checksum import crc32c

_MAGIC = b"CMJ1"
_FRAME = Struct(">4sII")
_TRANSACTION = Struct(">QI")
_CHANGE = Struct(">BHI")
_SNAPSHOT = Struct(">QQ")
_NODE = Struct(">HIIQ")
_CREATE, _SET, _DELETE = 1, 2, 3


class DamagedStore(UnusableDirectory):
    """A file of the store was altered after it had been written; the message says which, where, and what to do."""


def frame(payload: bytes) -> bytes:
    return _FRAME.pack(_MAGIC, len(payload), crc32c(payload)) + payload


def _frame_at(data: bytes, position: int) -> bytes | None:
    """The payload of the frame that begins here, or None if no whole one does."""
    if position + _FRAME.size > len(data):
        return None
    magic, size, checksum = _FRAME.unpack_from(data, position)
    start = position + _FRAME.size
    if magic != _MAGIC or start + size > len(data):
        return None
    payload = data[start : start + size]
    return payload if crc32c(payload) == checksum else None


def whole_frames(data: bytes, path: str) -> Iterator[tuple[bytes, int]]:
    """Each payload and the position behind it, up to a torn tail."""
    position = 0
    while (payload := _frame_at(data, position)) is not None:
        position += _FRAME.size + len(payload)
        yield payload, position
    candidate = data.find(_MAGIC, position + 1)
    while candidate >= 0:
        if _frame_at(data, candidate) is not None:
            raise DamagedStore(
                f"{path}: the entry at byte {position} is damaged, though a later one at byte {candidate} is whole. "
                f"A crash cannot do this; the disk may be failing. Restore the file from a backup, or give up the changes "
                f"after that byte: truncate -s {position} {path}"
            )
        candidate = data.find(_MAGIC, candidate + 1)
    if position == 0 and _is_foreign(data):
        raise DamagedStore(
            f"{path}: not a journal that this version can read: a newer one may have written it, or the disk may be "
            f"failing. Start the version that wrote it, or restore the file from a backup."
        )


def _is_foreign(data: bytes) -> bool:
    """Whether this does not begin like a journal. Where a first write was torn, there may be zeros or nothing."""
    return any(found not in (0, expected) for found, expected in zip(data, _MAGIC, strict=False))


def encode_transaction(number: int, changes: Sequence[Create | Set | Delete]) -> bytes:
    pieces = [_TRANSACTION.pack(number, len(changes))]
    for change in changes:
        path = change.path.encode()
        match change:
            case Create():
                kind, data = _CREATE, change.data
            case Set():
                kind, data = _SET, change.data
            case Delete():
                kind, data = _DELETE, b""
        pieces += (_CHANGE.pack(kind, len(path), len(data)), path, data)
    return b"".join(pieces)


def _decode_transactions(payload: bytes) -> Iterator[tuple[int, list[Create | Set | Delete]]]:
    position = 0
    while position < len(payload):
        number, count = _TRANSACTION.unpack_from(payload, position)
        position += _TRANSACTION.size
        changes: list[Create | Set | Delete] = []
        for _ in range(count):
            kind, path_size, data_size = _CHANGE.unpack_from(payload, position)
            position += _CHANGE.size
            path = payload[position : position + path_size].decode()
            position += path_size
            data = payload[position : position + data_size]
            position += data_size
            changes.append(
                Delete(path) if kind == _DELETE else Create(path, data) if kind == _CREATE else Set(path, data)
            )
        yield number, changes


def replay(payload: bytes, tree: NodeTree) -> None:
    """Apply the transactions of one frame of the journal."""
    group = StagedGroup(tree)
    for number, changes in _decode_transactions(payload):
        transaction = StagedTransaction(group)
        transaction.number = number
        for change in changes:
            transaction.apply(change)
        group.add(transaction)
    tree.merge(group)


def encode_snapshot(tree: NodeTree) -> bytes:
    nodes = [(path, entry) for path, entry in sorted(tree.entries.items()) if path != "/" and not entry.ephemeral]
    pieces = [_SNAPSHOT.pack(tree.last_change, len(nodes))]
    for path, entry in nodes:
        encoded = path.encode()
        pieces += (_NODE.pack(len(encoded), len(entry.data), entry.version, entry.created_by), encoded, entry.data)
    return frame(b"".join(pieces))


def decode_snapshot(data: bytes, path: str) -> NodeTree:
    payload = _frame_at(data, 0)
    if payload is None:
        raise DamagedStore(
            f"{path}: the snapshot is damaged; the disk may be failing. Restore the directory from a backup."
        )
    tree = NodeTree()
    tree.last_change, count = _SNAPSHOT.unpack_from(payload)
    position = _SNAPSHOT.size
    parsed: list[tuple[str, Entry]] = []
    child_counts: dict[str, int] = {}
    for _ in range(count):
        path_size, data_size, version, created_by = _NODE.unpack_from(payload, position)
        position += _NODE.size
        node_path = payload[position : position + path_size].decode()
        position += path_size
        parsed.append((node_path, Entry(payload[position : position + data_size], version, created_by, False, 0)))
        position += data_size
        parent = node_path.rpartition("/")[0] or "/"
        child_counts[parent] = child_counts.get(parent, 0) + 1
    for node_path, entry in [("/", tree.entries["/"]), *parsed]:
        tree.put(node_path, entry._replace(child_count=child_counts.get(node_path, 0)))
    return tree
