"""Share sessions (KIP-932): the partitions that a member of a share group fetches here, so that requests carry only changes.

A session belongs to a group and a member. It begins with epoch 0, each further request carries the next epoch, and -1 ends it.
The number of sessions and the number of their partitions are limited. No session is evicted for another: a member that is
rejected retries. A session also ends with the connection that opened it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError

FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = (1 << 31) - 1

MAX_PARTITIONS: Final = 200_000
"""The limit for all sessions together, as for fetch sessions."""


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class TopicPartition(NamedTuple):
    topic_id: UUID
    partition: int


class ShareSession:
    __slots__ = ("_partitions", "epoch", "forget_connection", "key")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.epoch = 1
        """The epoch that the next request must carry."""
        self.forget_connection: Callable[[], object] = _nothing
        """Called when the session ends before its connection."""
        self._partitions: dict[TopicPartition, None] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def partitions(self) -> list[TopicPartition]:
        """The partitions, in an order that rotates with every request, so that none is always served first."""
        partitions = list(self._partitions)
        if not partitions:
            return partitions
        turn = self.epoch % len(partitions)
        return partitions[turn:] + partitions[:turn]

    def update(self, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> None:
        """Add and remove partitions. One request may add a partition for its last acknowledgements and remove it."""
        for partition in added:
            self._partitions[partition] = None
        for partition in forgotten:
            self._partitions.pop(partition, None)


class ShareSessions:
    def __init__(self, max_sessions: int, max_partitions: int = MAX_PARTITIONS) -> None:
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._counts: dict[str, int] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions of all sessions."""
        return self._partition_count

    def __contains__(self, key: SessionKey) -> bool:
        return key in self._sessions

    def open(self, key: SessionKey) -> ShareSession:
        """Open a new session, which replaces an older one of the member."""
        older = self._sessions.get(key)
        if older is not None:
            self.close(older)
        elif len(self._sessions) >= self._max_sessions:
            raise ApiError(ErrorCode.share_session_limit_reached)
        self._counts[key.group_id] = self._counts.get(key.group_id, 0) + 1
        session = self._sessions[key] = ShareSession(key)
        return session

    def advance(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session of a further request, with its epoch advanced."""
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(ErrorCode.share_session_not_found)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise ApiError(ErrorCode.invalid_share_session_epoch)
            session.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        return session

    def update(
        self, session: ShareSession, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]
    ) -> None:
        """Change the partitions of an open session; ApiError if the limit is exceeded, and then the caller ends the session."""
        before = len(session)
        session.update(added, forgotten)
        self._partition_count += len(session) - before
        if self._partition_count > self._max_partitions and len(session) > before:
            raise ApiError(ErrorCode.share_session_limit_reached)

    def is_open(self, session: ShareSession) -> bool:
        return self._sessions.get(session.key) is session

    def close(self, session: ShareSession) -> None:
        group_id = session.key.group_id
        del self._sessions[session.key]
        self._partition_count -= len(session)
        self._counts[group_id] -= 1
        if not self._counts[group_id]:
            del self._counts[group_id]
        session.forget_connection()

    def has_group(self, group_id: str) -> bool:
        return group_id in self._counts


def _nothing() -> None:
    return
