"""Verifications of one partition: which batches wait, in which order, and which answers no longer count."""

from __future__ import annotations

from functools import partial

import pytest
from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError
from catchment.replication.verification import MOST_VERIFICATIONS, Verifications


def test_one_request_serves_all_waiting_batches_in_order() -> None:
    verification = Verifications().of(1, 0, 0)
    outcomes: list[tuple[int, ApiError | None]] = []

    def note(number: int, error: ApiError | None) -> None:
        outcomes.append((number, error))

    asks = [verification.wait(number, partial(note, number)) for number in range(3)]
    assert asks == [True, False, False]
    verification.answer(None)
    assert outcomes == [(0, None), (1, None), (2, None)]


def test_an_answer_applies_only_to_batches_that_waited_for_it() -> None:
    verification = Verifications().of(1, 0, 0)
    outcomes: list[ApiError | None] = []
    verification.wait(0, outcomes.append)
    verification.answer(ApiError(ErrorCode.invalid_txn_state))
    assert verification.wait(0, outcomes.append)
    assert len(outcomes) == 1


def test_a_marker_rejects_all_batches_that_waited_before_it() -> None:
    verifications = Verifications()
    before, other = verifications.of(1, 0, 0), verifications.of(2, 0, 0)
    outcomes: list[ApiError | None] = []
    before.wait(0, outcomes.append)
    other.wait(0, outcomes.append)
    verifications.cancel(1)
    after = verifications.of(1, 0, 0)
    assert after is not before
    assert after.wait(0, outcomes.append)
    for each in (before, after, other):
        each.answer(None)
    assert [error.code if error else None for error in outcomes] == [ErrorCode.invalid_txn_state, None, None]


def test_a_later_sequence_does_not_replace_a_rejected_one() -> None:
    verifications = Verifications()
    verification = verifications.of(1, 0, 5)
    verification.wait(3, lambda _: None)
    verification.answer(ApiError(ErrorCode.not_enough_replicas))
    with pytest.raises(ApiError) as rejected:
        verifications.of(1, 0, 5).check_sequence(5)
    assert rejected.value.code is ErrorCode.out_of_order_sequence_number
    verification.check_sequence(3)
    verifications.finish(verification)
    assert len(verifications) == 0
    verifications.of(1, 0, 5).check_sequence(5)


def test_another_epoch_needs_another_request() -> None:
    verifications = Verifications()
    assert verifications.of(1, 0, 7) is not verifications.of(1, 1, 0)
    verifications.cancel(1)
    assert len(verifications) == 0


def test_idle_verifications_are_evicted_and_pending_ones_are_not() -> None:
    verifications = Verifications()
    idle = verifications.of(0, 0, 3)
    for producer_id in range(1, MOST_VERIFICATIONS):
        verifications.of(producer_id, 0, 0).wait(0, lambda _: None)
    verifications.of(MOST_VERIFICATIONS, 0, 0).wait(0, lambda _: None)
    assert len(verifications) == MOST_VERIFICATIONS
    with pytest.raises(ApiError) as full:
        verifications.of(idle.producer_id, 0, 0)
    assert full.value.code is ErrorCode.not_enough_replicas
