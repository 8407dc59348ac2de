"""InitProducerId: register the producer of a transactional id, and fence the previous ones.

A producer that sends its id and epoch continues with the next epoch (KIP-360), and may repeat the request if it missed the
response. A producer that sends none is a new instance: it takes over, and has to wait until an ongoing transaction is aborted.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import Producer, is_too_long
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.commands import (
    InitRequest,
    ProducerReply,
    ProducerResponse,
    require_fresh,
)
from catchment.coordination.transactions.ending import Ending
from catchment.coordination.transactions.records import Transaction, TransactionState
from catchment.coordination.transactions.state import (
    TransactionShardState,
    busy,
    fenced,
    initialized,
    is_exhausted,
    new_producer,
    producer_of,
)
from catchment.protocol.errors import ApiError

_NO_EPOCH = -1


class Producers:
    __slots__ = ("_ending", "_state")

    def __init__(self, state: TransactionShardState, ending: Ending) -> None:
        self._state = state
        self._ending = ending

    def init(self, request: InitRequest, fresh_producer_id: int | None, reply: ProducerReply, now: Moment) -> None:
        self._check(request)
        transactional_id = request.transactional_id
        known = self._state.logged.get(transactional_id)
        if known is None:
            begun = new_producer(require_fresh(fresh_producer_id), request.timeout_ms, now.wall_ms)
            self._log(transactional_id, begun, _NO_EPOCH, reply)
            return
        if known.state.is_decided:
            # Before the expected producer is compared: EndTxn may have returned an id that is valid once this is complete.
            raise busy(transactional_id)
        if request.expected is not None and not _is_same_producer(known, request.expected):
            raise fenced(transactional_id, request.expected.epoch)
        if known.state is TransactionState.ONGOING:
            self._ending.abort_and_fence(transactional_id, known, fresh_producer_id, _as_concurrent(reply), now)
            return
        producer, last_epoch = self._bumped(request, known, fresh_producer_id)
        self._log(transactional_id, initialized(known, producer, request.timeout_ms, now.wall_ms), last_epoch, reply)

    def _check(self, request: InitRequest) -> None:
        if not request.transactional_id or is_too_long(request.transactional_id):
            raise ApiError(
                ErrorCode.invalid_request, "A transactional id must not be empty or longer than 32,000 bytes."
            )
        if not 0 < request.timeout_ms <= self._state.limits.max_timeout_ms:
            raise ApiError(
                ErrorCode.invalid_transaction_timeout,
                f"The time-out must be at most transaction.max.timeout.ms={self._state.limits.max_timeout_ms}.",
            )

    def _bumped(self, request: InitRequest, known: Transaction, fresh_producer_id: int | None) -> tuple[Producer, int]:
        """The new id and epoch of the producer, and the epoch with which it may repeat the request."""
        current = producer_of(known)
        expected = request.expected
        last_epoch = self._state.last_epochs.get(request.transactional_id, _NO_EPOCH)
        if expected is not None and expected != current:
            if expected.epoch == last_epoch:
                return current, last_epoch
            raise fenced(request.transactional_id, expected.epoch)
        bumped_from = _NO_EPOCH if expected is None else current.epoch
        if is_exhausted(current.epoch):
            return Producer(require_fresh(fresh_producer_id), 0), bumped_from
        return Producer(current.producer_id, current.epoch + 1), bumped_from

    def _log(self, transactional_id: str, begun: Transaction, last_epoch: int, reply: ProducerReply) -> None:
        def committed(_: Moment) -> None:
            reply(ProducerResponse(ErrorCode.none, producer_of(begun)))

        self._state.last_epochs[transactional_id] = last_epoch
        self._state.log(transactional_id, begun, committed, lambda error, _: reply(ProducerResponse(error)))


def _is_same_producer(known: Transaction, expected: Producer) -> bool:
    """Whether the producer has the current id, or had the previous one until its epochs were exhausted."""
    return expected.producer_id == known.producer_id or (
        expected.producer_id == known.previous_producer_id and is_exhausted(expected.epoch)
    )


def _as_concurrent(reply: ProducerReply) -> ProducerReply:
    """Answer with CONCURRENT_TRANSACTIONS once the abort is prepared: the client has to retry."""

    def answered(answer: ProducerResponse) -> None:
        is_aborting = answer.error is ErrorCode.none
        reply(ProducerResponse(ErrorCode.concurrent_transactions if is_aborting else answer.error))

    return answered
