"""What administrators ask of transactions, and the end of transactional ids that nobody uses any more."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from catchment.coordination.replayed import EncodedRecord
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.records import Transaction, TransactionState, encode_key
from catchment.coordination.transactions.shard_state import TransactionShardState
from catchment.protocol.errors import ApiError

_EXPIRABLE: Final = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_MOST_KEY_BYTES: Final = 256 * 1024
"""Of the tombstones written together: well below what a batch may have."""


class TransactionQueries:
    __slots__ = ("_state",)

    def __init__(self, state: TransactionShardState) -> None:
        self._state = state

    def listing(self) -> list[tuple[str, Transaction]]:
        return list(self._state.logged.items())

    def describe(self, transactional_id: str) -> Transaction:
        known = self._state.logged.get(transactional_id)
        if known is None:
            raise ApiError(ErrorCode.transactional_id_not_found)
        return known

    def expire(self, now: Moment) -> None:
        """Forget the ids whose producers have not been heard of for long."""
        oldest_ms = now.wall_ms - self._state.limits.expiration_ms
        tombstones: list[EncodedRecord] = []
        size = 0
        for transactional_id, known in self._state.logged.items():
            if known.state in _EXPIRABLE and known.update_time_ms <= oldest_ms:
                key = encode_key(transactional_id)
                tombstones.append((key, None))
                size += len(key)
                if size > _MOST_KEY_BYTES:
                    self._state.write(tombstones)
                    tombstones, size = [], 0
        if tombstones:
            self._state.write(tombstones)
