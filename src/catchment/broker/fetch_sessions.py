"""Fetch sessions (KIP-227): the broker remembers which partitions a client reads, so that requests carry only changes.

A session belongs to a client that asked for one with epoch 0; each further request carries the next epoch. At most a fixed
number is kept; beyond it, the one unused for longest makes room, and its owner is told to start again.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError
from catchment.protocol.fetch import FetchRequest, PartitionAnswer, PartitionRequest
from catchment.protocol.produce import TopicKey

NO_SESSION = 0
_FINAL_EPOCH = -1
_FIRST_EPOCH = 0
_MAX_ID = (1 << 31) - 1


class SessionPartition:
    """A partition that a client reads, and what it was told last."""

    __slots__ = ("high_watermark", "log_start_offset", "request", "topic")

    def __init__(self, topic: TopicKey, request: PartitionRequest) -> None:
        self.topic = topic
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1


class FetchSession:
    """The partitions of one request; with an id, they are kept for the next."""

    __slots__ = ("_is_incremental", "_partitions", "epoch", "id", "uses_topic_ids")

    def __init__(self, session_id: int, *, uses_topic_ids: bool) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self._is_incremental = False
        self._partitions: OrderedDict[tuple[TopicKey, int], SessionPartition] = OrderedDict()

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def is_beginning(self) -> bool:
        """Whether the request that opened it named all partitions."""
        return not self._is_incremental

    def partitions(self) -> Iterable[SessionPartition]:
        return self._partitions.values()

    def update(self, request: FetchRequest, *, is_incremental: bool) -> None:
        self._is_incremental = is_incremental
        for topic, numbers in request.forgotten:
            for number in numbers:
                self._partitions.pop((topic, number), None)
        for asked in request.topics:
            for partition in asked.partitions:
                key = (asked.topic, partition.partition)
                known = self._partitions.get(key)
                if known is None:
                    self._partitions[key] = SessionPartition(asked.topic, partition)
                else:
                    known.request = partition

    def should_send(self, asked: SessionPartition, answer: PartitionAnswer) -> bool:
        """Whether the answer says something new. What has data moves to the back, so that all get their turn."""
        has_data = len(answer.records) > 0
        is_new = (
            not self._is_incremental
            or has_data
            or answer.error_code != 0
            or answer.high_watermark != asked.high_watermark
            or answer.log_start_offset != asked.log_start_offset
        )
        asked.high_watermark = answer.high_watermark if answer.error_code == 0 else -1
        asked.log_start_offset = answer.log_start_offset
        if has_data and self.id != NO_SESSION:
            self._partitions.move_to_end((asked.topic, answer.partition))
        return is_new


class FetchSessions:
    def __init__(self, max_sessions: int, randomness: random.Random) -> None:
        self._max_sessions = max_sessions
        self._randomness = randomness
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest) -> FetchSession:
        """The session that a request belongs to, brought up to date; a passing one if it wants none."""
        if request.session_epoch in (_FIRST_EPOCH, _FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            wants_session = request.session_epoch == _FIRST_EPOCH and self._max_sessions > 0
            by_id = request.uses_topic_ids
            session = self._new(by_id) if wants_session else FetchSession(NO_SESSION, uses_topic_ids=by_id)
            session.update(request, is_incremental=False)
            return session
        known = self._sessions.get(request.session_id)
        if known is None:
            raise ApiError(ErrorCode.fetch_session_id_not_found)
        if request.session_epoch != known.epoch:
            raise ApiError(ErrorCode.invalid_fetch_session_epoch)
        if request.uses_topic_ids != known.uses_topic_ids:
            # The session's topics could not be named in the answer. A client that has lost its metadata begins with names
            # and goes on with ids as soon as it has learnt them.
            raise ApiError(ErrorCode.fetch_session_topic_id_error)
        known.epoch = 1 if known.epoch == _MAX_ID else known.epoch + 1
        self._sessions.move_to_end(known.id)
        known.update(request, is_incremental=True)
        return known

    def leave(self, session: FetchSession) -> int:
        """Answer a request without its partitions; the id to answer with. A session that was to begin begins another time."""
        if session.is_beginning:
            self._sessions.pop(session.id, None)
            return NO_SESSION
        return session.id

    def _new(self, uses_topic_ids: bool) -> FetchSession:
        while len(self._sessions) >= self._max_sessions:
            self._sessions.popitem(last=False)
        session_id = self._randomness.randint(1, _MAX_ID)
        while session_id in self._sessions:
            session_id = self._randomness.randint(1, _MAX_ID)
        session = self._sessions[session_id] = FetchSession(session_id, uses_topic_ids=uses_topic_ids)
        return session
