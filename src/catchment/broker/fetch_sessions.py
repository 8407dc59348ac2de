"""Fetch sessions (KIP-227): the broker caches which partitions a client fetches, so that requests carry only changes.

A full request with epoch 0 creates a session; each incremental request carries the next epoch. The number of sessions is bounded,
and so is the number of partitions in all of them; beyond that, the least recently used session is evicted, and its client has to
create a new one. Two connections may use one session, so a session can change while a request waits.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError
from catchment.protocol.fetch import FetchRequest, PartitionRequest, PartitionResponse
from catchment.protocol.produce import TopicKey

NO_SESSION = 0
_FINAL_EPOCH = -1
_FIRST_EPOCH = 0
_MAX_ID = (1 << 31) - 1

MAX_PARTITIONS = 200_000
"""The bound for all sessions together: a partition takes about half a kilobyte."""


class SessionPartition:
    """A partition that a client fetches, and the offsets in the last response about it."""

    __slots__ = ("high_watermark", "log_start_offset", "request", "topic", "was_known")

    def __init__(self, topic: TopicKey, request: PartitionRequest) -> None:
        self.topic = topic
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1
        self.was_known = False
        """Whether the partition has existed since the client named it."""


class FetchSession:
    """The partitions of a request; with an id, they are cached for the next request."""

    __slots__ = ("_partitions", "epoch", "id", "uses_topic_ids")

    def __init__(self, session_id: int, *, uses_topic_ids: bool) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self._partitions: OrderedDict[tuple[TopicKey, int], SessionPartition] = OrderedDict()

    def __len__(self) -> int:
        return len(self._partitions)

    def partitions(self) -> Iterable[SessionPartition]:
        return self._partitions.values()

    def update(self, request: FetchRequest) -> None:
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

    def should_send(self, request: FetchRequest, asked: SessionPartition, answer: PartitionResponse) -> bool:
        """Whether the response must include the partition. A partition with data moves to the back, so that every one gets its turn."""
        has_data = len(answer.records) > 0
        is_new = (
            _is_full(request)
            or has_data
            or answer.error_code != 0
            or answer.high_watermark != asked.high_watermark
            or answer.log_start_offset != asked.log_start_offset
        )
        asked.high_watermark = answer.high_watermark if answer.error_code == 0 else -1
        asked.log_start_offset = answer.log_start_offset
        if has_data and self.id != NO_SESSION:
            key = (asked.topic, answer.partition)
            # Another request of the session may have removed it while its data was read.
            if key in self._partitions:
                self._partitions.move_to_end(key)
        return is_new


def _is_full(request: FetchRequest) -> bool:
    """Whether a request names all its partitions, and the response includes all of them."""
    return request.session_epoch in (_FIRST_EPOCH, _FINAL_EPOCH)


class FetchSessions:
    def __init__(self, max_sessions: int, randomness: random.Random, max_partitions: int = MAX_PARTITIONS) -> None:
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._randomness = randomness
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions in all sessions."""
        return self._partition_count

    def open(self, request: FetchRequest) -> FetchSession:
        """The session of a request, updated by it; a session that is not cached if the request asks for none."""
        if _is_full(request):
            self._remove(request.session_id)
            wants_session = request.session_epoch == _FIRST_EPOCH and self._max_sessions > 0
            by_id = request.uses_topic_ids
            session = self._new(by_id) if wants_session else FetchSession(NO_SESSION, uses_topic_ids=by_id)
        else:
            session = self._next(request)
        size_before = len(session)
        session.update(request)
        if session.id != NO_SESSION:
            self._partition_count += len(session) - size_before
            self._make_room_for_partitions()
        return session

    def leave(self, request: FetchRequest, session: FetchSession) -> int:
        """The session id for an empty response. A session that this request created is removed: the client creates it again."""
        if _is_full(request):
            if self._sessions.get(session.id) is session:
                self._remove(session.id)
            return NO_SESSION
        return session.id

    def _next(self, request: FetchRequest) -> FetchSession:
        known = self._sessions.get(request.session_id)
        if known is None:
            raise ApiError(ErrorCode.fetch_session_id_not_found)
        if request.session_epoch != known.epoch:
            raise ApiError(ErrorCode.invalid_fetch_session_epoch)
        if request.uses_topic_ids != known.uses_topic_ids:
            # The response could not name the session's topics. A client without metadata starts with names, and switches
            # to ids as soon as it has them.
            raise ApiError(ErrorCode.fetch_session_topic_id_error)
        known.epoch = 1 if known.epoch == _MAX_ID else known.epoch + 1
        self._sessions.move_to_end(known.id)
        return known

    def _new(self, uses_topic_ids: bool) -> FetchSession:
        while len(self._sessions) >= self._max_sessions:
            self._remove(next(iter(self._sessions)))
        session_id = self._randomness.randint(1, _MAX_ID)
        while session_id in self._sessions:
            session_id = self._randomness.randint(1, _MAX_ID)
        session = self._sessions[session_id] = FetchSession(session_id, uses_topic_ids=uses_topic_ids)
        return session

    def _make_room_for_partitions(self) -> None:
        # The session in use is evicted last. If it is too large by itself, its request is still served.
        while self._partition_count > self._max_partitions:
            self._remove(next(iter(self._sessions)))

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session)
