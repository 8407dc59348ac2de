"""Whether a transactional batch may be the first of its transaction in a partition (KIP-890).

A batch that arrives after its transaction has ended would open a transaction that never ends, and readers of committed data
would wait for ever. So before the first batch the broker asks the transaction coordinator whether the partition belongs to the
producer's open transaction. A marker that is written before the answer arrives makes the answer worthless: all batches that wait
for it are rejected. Batches that arrive meanwhile wait in the order of their arrival.

The lowest sequence number seen is kept until a batch is appended: if the first batch was rejected, the second must not
take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError

MOST_VERIFICATIONS = 1000

WhenVerified = Callable[[ApiError | None], None]
"""Appends the batch that waited, or rejects it with the error."""


class Verification:
    """One request to the coordinator, for one producer and partition, and the batches that wait for the answer."""

    __slots__ = ("_waiting", "epoch", "is_cancelled", "is_pending", "lowest_sequence", "producer_id")

    def __init__(self, producer_id: int, epoch: int, sequence: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.is_pending = False
        self.is_cancelled = False
        self._waiting: list[WhenVerified] = []

    def wait(self, sequence: int, then: WhenVerified) -> bool:
        """Wait for the answer; returns whether the caller must send the request."""
        self.lowest_sequence = min(self.lowest_sequence, sequence)
        self._waiting.append(then)
        must_send, self.is_pending = not self.is_pending, True
        return must_send

    def answer(self, error: ApiError | None) -> None:
        """Append or reject the batches that have waited, in order."""
        if self.is_cancelled:
            error = ApiError(ErrorCode.invalid_txn_state, "the transaction ended while the batch was on its way")
        self.is_pending = False
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(error)

    def check_sequence(self, sequence: int) -> None:
        if sequence > self.lowest_sequence:
            raise ApiError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {self.producer_id} sent sequence {sequence}, but {self.lowest_sequence} is still missing",
            )


class Verifications:
    """The verifications of one partition, by producer and epoch."""

    __slots__ = ("_by_producer", "_count")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[int, Verification]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, producer_id: int, epoch: int, sequence: int) -> Verification:
        epochs = self._by_producer.get(producer_id)
        found = epochs.get(epoch) if epochs is not None else None
        if found is None:
            if self._count >= MOST_VERIFICATIONS:
                self._forget_oldest()
            found = Verification(producer_id, epoch, sequence)
            self._by_producer.setdefault(producer_id, {})[epoch] = found
            self._count += 1
        return found

    def cancel(self, producer_id: int) -> None:
        """A marker of the producer is written: answers to older requests no longer count."""
        for verification in self._by_producer.pop(producer_id, {}).values():
            verification.is_cancelled = True
            self._count -= 1

    def finish(self, verification: Verification) -> None:
        """A batch is appended: from now on the log itself shows that the transaction is open."""
        epochs = self._by_producer.get(verification.producer_id, {})
        if epochs.get(verification.epoch) is verification:
            del epochs[verification.epoch]
            self._count -= 1
            if not epochs:
                del self._by_producer[verification.producer_id]

    def _forget_oldest(self) -> None:
        oldest = next(self._idle(), None)
        if oldest is None:
            raise ApiError(ErrorCode.not_enough_replicas, "too many transactions begin at once; try again")
        self.finish(oldest)

    def _idle(self) -> Iterator[Verification]:
        for epochs in self._by_producer.values():
            for verification in epochs.values():
                if not verification.is_pending:
                    yield verification
