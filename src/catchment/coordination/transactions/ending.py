"""EndTxn, and the abort of transactions that time out: prepare, write the markers, complete.

The decision is one record, PrepareCommit or PrepareAbort. Once it is committed the client gets its response and the markers are
sent. When every partition has its marker, a second record completes the transaction. A shard that is loaded resumes the
prepared transactions.

Since transaction version 2 (KIP-890) the decision also bumps the epoch, and the response holds the new one: a repeated request
is recognized by the previous epoch. An abort by the coordinator always bumps the epoch, so that the producer is fenced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.commands import (
    FIRST_VERSION_WITH_EPOCH_BUMP,
    LAST_EPOCH,
    EndRequest,
    MarkersToWrite,
    ProducerReply,
    ProducerResponse,
    SendMarkers,
    require_fresh,
)
from catchment.coordination.transactions.records import NO_PRODUCER_ID, Transaction, TransactionState
from catchment.coordination.transactions.state import (
    TransactionShardState,
    busy,
    completed,
    decided,
    fenced,
    is_exhausted,
    producer_of,
)
from catchment.protocol.errors import ApiError

_RETRY_MS: Final = 1_000


class Ending:
    __slots__ = ("_send", "_state", "_waiting")

    def __init__(self, state: TransactionShardState, send: SendMarkers) -> None:
        self._state = state
        self._send = send
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        """Callbacks for the completion of prepared transactions."""

    def end(self, request: EndRequest, fresh_producer_id: int | None, reply: ProducerReply, now: Moment) -> None:
        known = self._state.existing(request.transactional_id)
        bumps_epoch = request.client_version >= FIRST_VERSION_WITH_EPOCH_BUMP
        is_new = self._is_new_end(request, known) if bumps_epoch else self._is_new_end_without_bump(request, known)
        if not is_new:
            reply(ProducerResponse(ErrorCode.none, producer_of(known)))
            return
        self._decide(
            request.transactional_id, known, request.is_commit, request.client_version, fresh_producer_id, reply, now
        )

    def abort_and_fence(
        self,
        transactional_id: str,
        known: Transaction,
        fresh_producer_id: int | None,
        reply: ProducerReply,
        now: Moment,
    ) -> None:
        """Abort an ongoing transaction and fence its producer, which can then neither add to it nor end it."""
        self._decide(transactional_id, known, False, FIRST_VERSION_WITH_EPOCH_BUMP, fresh_producer_id, reply, now)

    def timed_out(self, now: Moment) -> list[str]:
        """The ids whose transaction has exceeded its time-out."""
        logged = self._state.logged
        return [
            transactional_id
            for transactional_id in self._state.ongoing
            if _has_timed_out(logged[transactional_id], now)
        ]

    def abort_if_timed_out(self, transactional_id: str, fresh_producer_id: int | None, now: Moment) -> None:
        known = self._state.logged.get(transactional_id)
        if known is not None and _has_timed_out(known, now):
            self.abort_and_fence(transactional_id, known, fresh_producer_id, lambda _: None, now)

    def resume_decided(self) -> None:
        """Resume the transactions that were prepared before this shard was loaded."""
        for transactional_id, known in self._state.logged.items():
            if known.state.is_decided:
                self._log_decision(transactional_id, known, lambda _: None)

    def markers_written(self, transactional_id: str, producer: Producer, now: Moment) -> None:
        """Complete the transaction: every partition has its marker."""
        known = self._state.logged.get(transactional_id)
        if known is not None and known.state.is_decided and producer_of(known) == producer:
            self._state.log(transactional_id, completed(known, now.wall_ms), lambda _: None, lambda _, __: None)
            self._wake(transactional_id)

    def awaits(self, markers: MarkersToWrite) -> bool:
        """Whether the transaction still waits for these markers."""
        known = self._state.logged.get(markers.transactional_id)
        expected = TransactionState.PREPARE_COMMIT if markers.is_commit else TransactionState.PREPARE_ABORT
        return known is not None and known.state is expected and producer_of(known) == markers.producer

    def when_completed(self, transactional_id: str, wake: Callable[[], None]) -> None:
        """Call `wake` once, when no prepared transaction is pending any more; possibly before this returns."""
        known = self._state.logged.get(transactional_id)
        if known is not None and known.state.is_decided:
            self._waiting.setdefault(transactional_id, []).append(wake)
        else:
            wake()

    def stop_waiting(self, transactional_id: str, wake: Callable[[], None]) -> None:
        """Remove a callback whose caller has stopped waiting."""
        waiting = self._waiting.get(transactional_id, [])
        if wake in waiting:
            waiting.remove(wake)

    def close(self) -> None:
        """Wake all waiting callers, which then ask another coordinator."""
        for transactional_id in list(self._waiting):
            self._wake(transactional_id)

    def _wake(self, transactional_id: str) -> None:
        for wake in self._waiting.pop(transactional_id, ()):
            wake()

    def _is_new_end(self, request: EndRequest, known: Transaction) -> bool:
        """Whether the request ends the transaction; False for a repeated request. ApiError if it is invalid."""
        asked, state = request.producer, known.state
        if state.is_decided:
            # Before the id and the epoch are compared: the client already has its next ones, perhaps with a new id, and they
            # are valid once the transaction is complete.
            raise busy(request.transactional_id)
        repeats_last_epoch = (
            asked.producer_id == known.previous_producer_id and asked.epoch == LAST_EPOCH and known.producer_epoch == 0
        )
        if not repeats_last_epoch:
            self._state.existing(request.transactional_id, asked.producer_id)
        has_ended = state not in (TransactionState.EMPTY, TransactionState.ONGOING)
        # If the last transaction ended without an epoch bump, the previous epoch was another producer's.
        is_repeatable = has_ended and known.client_version >= FIRST_VERSION_WITH_EPOCH_BUMP
        if is_repeatable and (repeats_last_epoch or asked.epoch + 1 == known.producer_epoch):
            self._check_repeated(request, state)
            return False
        if asked.epoch != known.producer_epoch:
            raise fenced(request.transactional_id, asked.epoch)
        if request.is_commit and state is not TransactionState.ONGOING:
            raise _wrong_state(request, state)
        return True

    def _is_new_end_without_bump(self, request: EndRequest, known: Transaction) -> bool:
        """As `_is_new_end`, for clients whose epoch is not bumped with each transaction."""
        self._state.existing(request.transactional_id, request.producer.producer_id)
        if request.producer.epoch != known.producer_epoch:
            raise fenced(request.transactional_id, request.producer.epoch)
        if known.state.is_decided:
            raise busy(request.transactional_id)
        if known.state is TransactionState.ONGOING:
            return True
        if known.state is TransactionState.EMPTY:
            raise _wrong_state(request, known.state)
        self._check_repeated(request, known.state)
        return False

    def _check_repeated(self, request: EndRequest, state: TransactionState) -> None:
        """ApiError unless the transaction was completed with the outcome that the request asks for."""
        if (state is TransactionState.COMPLETE_COMMIT) is not request.is_commit:
            raise _wrong_state(request, state)

    def _decide(
        self,
        transactional_id: str,
        known: Transaction,
        is_commit: bool,
        client_version: int,
        fresh_producer_id: int | None,
        reply: ProducerReply,
        now: Moment,
    ) -> None:
        bumps_epoch = client_version >= FIRST_VERSION_WITH_EPOCH_BUMP
        needs_next = bumps_epoch and is_exhausted(known.producer_epoch)
        next_producer_id = require_fresh(fresh_producer_id) if needs_next else NO_PRODUCER_ID
        if bumps_epoch:
            self._state.last_epochs[transactional_id] = known.producer_epoch
        outcome = decided(known, is_commit, client_version, next_producer_id, now.wall_ms)
        self._log_decision(transactional_id, outcome, reply)

    def _log_decision(self, transactional_id: str, outcome: Transaction, reply: ProducerReply) -> None:
        def committed(now: Moment) -> None:
            reply(ProducerResponse(ErrorCode.none, producer_of(completed(outcome, now.wall_ms))))
            self._send_markers(transactional_id, outcome, now)

        def failed(error: ErrorCode, now: Moment) -> None:
            reply(ProducerResponse(error))
            if self._state.logged.get(transactional_id) == outcome:
                # It is in the log, but may not be committed. Once the repetition is committed, so is the first record.
                self._state.timers.set(
                    ("decision", transactional_id, ""),
                    now.monotonic_ms + _RETRY_MS,
                    lambda _: self._log_decision(transactional_id, outcome, lambda _: None),
                )

        self._state.log(transactional_id, outcome, committed, failed)

    def _send_markers(self, transactional_id: str, outcome: Transaction, now: Moment) -> None:
        producer = producer_of(outcome)
        if not outcome.partitions:
            self.markers_written(transactional_id, producer, now)
            return
        is_commit = outcome.state is TransactionState.PREPARE_COMMIT
        self._send(MarkersToWrite(transactional_id, producer, is_commit, outcome.client_version, outcome.partitions))


def _has_timed_out(known: Transaction, now: Moment) -> bool:
    return known.state is TransactionState.ONGOING and known.start_time_ms + known.timeout_ms < now.wall_ms


def _wrong_state(request: EndRequest, state: TransactionState) -> ApiError:
    action = "commit" if request.is_commit else "abort"
    return ApiError(
        ErrorCode.invalid_txn_state, f"Transactional id '{request.transactional_id}' cannot {action} in {state.title}."
    )
