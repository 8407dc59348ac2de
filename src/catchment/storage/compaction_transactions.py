"""What compaction must know of transactions while it walks over a log: which were aborted, and which have no batch left."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from catchment.protocol.batch import BatchHeader
from catchment.storage.transaction_index import AbortedTransaction


class TransactionOutcomes:
    """Batches and markers must be shown in the order of the log."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` comes in the order of the log as well."""
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        for transaction in aborted:
            self._aborted.setdefault(transaction.producer_id, []).append(transaction)
        self._with_batches: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether this data batch belongs to an aborted transaction. Its transaction is known to have a batch from now on."""
        if not header.is_transactional:
            return False
        self._with_batches.add(header.producer_id)
        return self._abort_around(header) is not None

    def ends_empty(self, marker: BatchHeader) -> tuple[bool, AbortedTransaction | None]:
        """Whether no batch is left of the transaction that a marker ends; if one is, what an index of aborts must keep."""
        if marker.producer_id not in self._with_batches:
            return True, None
        self._with_batches.discard(marker.producer_id)
        return False, self._abort_around(marker)

    def _abort_around(self, header: BatchHeader) -> AbortedTransaction | None:
        transactions = self._aborted.get(header.producer_id, [])
        index = bisect_right(transactions, header.base_offset, key=lambda transaction: transaction.first_offset) - 1
        if index >= 0 and header.base_offset <= transactions[index].last_offset:
            return transactions[index]
        return None
