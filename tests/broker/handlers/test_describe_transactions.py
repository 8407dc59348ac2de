"""DescribeTransactions and ListTransactions over the wire."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from tests.broker.handlers.transaction_requests import TransactionWire, list_transactions
from tests.broker.handlers.wire import Wire

from catchment.coordination.coordinator_shard import Producer
from catchment.testing.embedded import Broker


@pytest.fixture
def producers(broker: Broker, wire: Wire) -> dict[str, Producer]:
    """`idle` has begun nothing yet, `busy` has a transaction under way."""
    broker.create_topic("t")
    idle, busy = TransactionWire(wire, "idle").begin(), TransactionWire(wire, "busy").begin()
    TransactionWire(wire, "busy").add(busy, {"t": [0]})
    return {"idle": idle, "busy": busy}


def listed(answer: ListTransactionsResponse) -> dict[str, str]:
    assert answer.error_code is ErrorCode.none
    return {state.transactional_id: state.transaction_state for state in answer.transaction_states}


def test_a_transaction_is_described(wire: Wire, producers: dict[str, Producer]) -> None:
    state = TransactionWire(wire, "busy").describe()
    assert (state.error_code, state.transaction_state) == (ErrorCode.none, "Ongoing")
    assert Producer(state.producer_id, state.producer_epoch) == producers["busy"]
    assert state.transaction_timeout == timedelta(seconds=60)
    assert state.transaction_start_time is not None
    assert abs(state.transaction_start_time.timestamp() - time.time()) < 60
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("t", (0,))]


def test_before_the_first_transaction_there_is_no_start(wire: Wire, producers: dict[str, Producer]) -> None:
    state = TransactionWire(wire, "idle").describe()
    assert (state.transaction_state, state.transaction_start_time, state.topics) == ("Empty", None, ())


@pytest.mark.parametrize(
    ("name", "code"), [("unknown", ErrorCode.transactional_id_not_found), ("", ErrorCode.invalid_request)]
)
def test_an_unknown_id_is_reported(wire: Wire, name: str, code: ErrorCode) -> None:
    assert TransactionWire(wire, name).describe().error_code is code


@pytest.mark.parametrize("version", range(3))
def test_all_ids_are_listed_at_every_version(wire: Wire, producers: dict[str, Producer], version: int) -> None:
    assert listed(list_transactions(wire, version=version)) == {"idle": "Empty", "busy": "Ongoing"}


def test_each_filter_leaves_out_what_it_should(wire: Wire, producers: dict[str, Producer]) -> None:
    assert listed(list_transactions(wire, states=("Ongoing", "Dead"))) == {"busy": "Ongoing"}
    assert listed(list_transactions(wire, producer_ids=(producers["idle"].producer_id,))) == {"idle": "Empty"}
    assert listed(list_transactions(wire, pattern="b.*")) == {"busy": "Ongoing"}
    assert listed(list_transactions(wire, pattern="us")) == {}
    assert "busy" not in listed(list_transactions(wire, duration_ms=60_000))
    assert listed(list_transactions(wire, pattern="")) == {"idle": "Empty", "busy": "Ongoing"}


def test_states_that_do_not_exist_are_named(wire: Wire, producers: dict[str, Producer]) -> None:
    answer = list_transactions(wire, states=("Nope", "Ongoing"))
    assert answer.unknown_state_filters == ("Nope",)
    assert [state.transactional_id for state in answer.transaction_states] == ["busy"]


def test_an_invalid_pattern_is_rejected(wire: Wire) -> None:
    assert list_transactions(wire, pattern="(").error_code is ErrorCode.invalid_regular_expression
