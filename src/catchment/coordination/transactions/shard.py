"""One shard of the transaction coordinator, as whoever runs it sees it.

Commands change nothing that is logged: they leave records to be written. What the partitions of a decided transaction are to be told
goes to `send`, which calls `ending.markers_written` when all have it. What is being sent belongs to this shard: `close` ends it, and
the shard that replays the log sends it again.
"""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from catchment.coordination.replayed import NO_PRODUCER, Write
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.commands import SendMarkers, TransactionLimits
from catchment.coordination.transactions.ending import Ending
from catchment.coordination.transactions.partitions import Partitions
from catchment.coordination.transactions.producers import Producers
from catchment.coordination.transactions.queries import TransactionQueries
from catchment.coordination.transactions.shard_state import TransactionShardState


class TransactionShard:
    __slots__ = ("_state", "_stop_sending", "ending", "partitions", "producers", "queries")

    def __init__(
        self, limits: TransactionLimits, send: SendMarkers, stop_sending: Callable[[], None] = lambda: None
    ) -> None:
        self._stop_sending = stop_sending
        self._state = TransactionShardState(limits)
        self.ending = Ending(self._state, send)
        self.producers = Producers(self._state, self.ending)
        self.partitions = Partitions(self._state)
        self.queries = TransactionQueries(self._state)

    @property
    def state(self) -> TransactionShardState:
        return self._state

    @property
    def next_deadline_ms(self) -> int | None:
        return self._state.timers.next_deadline_ms

    def take_writes(self) -> list[Write]:
        return self._state.take_writes()

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        """Nothing in this topic is written in a transaction, so the producer does not matter."""
        self._state.replay(key, value)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """There are no transactions over the log of transactions."""

    def loaded(self, now: Moment) -> None:
        self.ending.finish_decided()

    def on_time(self, now: Moment) -> None:
        self._state.timers.run_due(now)

    def close(self, error: ErrorCode) -> None:
        """The runner reports the outcome of writes; only what waits for other transactions is woken here."""
        self._stop_sending()
        self.ending.close()
