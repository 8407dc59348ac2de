"""What one shard of the transaction coordinator holds: the transactional ids whose records lie in one partition.

`logged` is what the log says, and only `replay` changes it. A decision is replayed as soon as it is appended, so the next
command sees it and there is nothing half decided: what rests on it, an answer or a marker, waits until it is safe, and
whatever is decided later comes after it in the log.
"""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from catchment.coordination.replayed import Decisions
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.commands import TransactionLimits
from catchment.coordination.transactions.records import (
    Transaction,
    TransactionState,
    decode_key,
    decode_transaction,
    encode_key,
    encode_transaction,
)
from catchment.protocol.errors import ApiError


class TransactionShardState(Decisions):
    __slots__ = ("last_epochs", "limits", "logged", "ongoing")

    def __init__(self, limits: TransactionLimits) -> None:
        super().__init__()
        self.limits = limits
        self.logged: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}
        """The ids whose transaction is under way, so that whoever looks for late ones need not look at all."""
        self.last_epochs: dict[str, int] = {}
        """The epoch from which each producer was last raised, so that it may ask again when it missed the answer.

        Kafka's records do not hold it, so it is volatile: after a replay such a producer is fenced."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take on what a record of the log says."""
        transactional_id = decode_key(key)
        if transactional_id is None:
            return
        self.ongoing.pop(transactional_id, None)
        if value is None:
            self.logged.pop(transactional_id, None)
            self.last_epochs.pop(transactional_id, None)
            return
        transaction = self.logged[transactional_id] = decode_transaction(value)
        if transaction.state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = None

    def existing(self, transactional_id: str, producer_id: int | None = None) -> Transaction:
        """What is known of the id, if this producer id is its; ApiError otherwise."""
        if not transactional_id:
            raise ApiError(ErrorCode.invalid_request, "A transactional id cannot be empty.")
        known = self.logged.get(transactional_id)
        if known is None or producer_id not in (None, known.producer_id):
            raise ApiError(
                ErrorCode.invalid_producer_id_mapping,
                f"Producer id {producer_id} does not belong to transactional id '{transactional_id}'.",
            )
        return known

    def log(
        self,
        transactional_id: str,
        transaction: Transaction,
        committed: Callable[[Moment], None],
        failed: Callable[[ErrorCode, Moment], None],
    ) -> None:
        """Have the transaction written down."""
        self.write([(encode_key(transactional_id), encode_transaction(transaction))], committed, failed)


def fenced(transactional_id: str, epoch: int) -> ApiError:
    """Somebody else uses the transactional id now, or the coordinator has ended what this producer began."""
    return ApiError(
        ErrorCode.producer_fenced, f"Epoch {epoch} of transactional id '{transactional_id}' is not the current one."
    )


def busy(transactional_id: str) -> ApiError:
    return ApiError(
        ErrorCode.concurrent_transactions, f"A transaction of '{transactional_id}' is still being completed."
    )
