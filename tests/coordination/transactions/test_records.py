"""The records of `__transaction_state` are as Kafka writes them, and others are rejected or ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.coordination.coordinator_shard import UnreadableRecord
from catchment.coordination.transactions.records import (
    Transaction,
    TransactionState,
    decode_key,
    decode_transaction,
    encode_key,
    encode_transaction,
)

# From `__transaction_state` of Apache Kafka 4.3.1: an ongoing transaction of a client with transaction version 2.
KAFKA_ONGOING = bytes.fromhex(
    "0001000000000000000000020000ea6001020d66697273742d7265636f7264020000000000000001a1e1c71877000001a1e1c718770200080000000000000000"
    "02020002"
)

identifiers = st.integers(-1, (1 << 63) - 1)
times = st.integers(-1, 1 << 53)
partitions = st.lists(st.tuples(st.text(max_size=5), st.integers(0, 1000)), unique=True).map(
    lambda found: tuple(sorted(found))
)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    state = draw(st.sampled_from(TransactionState))
    return Transaction(
        draw(identifiers),
        draw(st.integers(-1, 32767)),
        draw(st.integers(0, (1 << 31) - 1)),
        state,
        () if state is TransactionState.EMPTY else draw(partitions),
        draw(times),
        draw(times),
        draw(identifiers),
        draw(identifiers),
        draw(st.integers(0, 2)),
    )


@given(transactions())
def test_what_is_written_is_read_back(transaction: Transaction) -> None:
    assert decode_transaction(encode_transaction(transaction)) == transaction


@given(st.text(max_size=50))
def test_a_key_holds_its_transactional_id(transactional_id: str) -> None:
    assert decode_key(encode_key(transactional_id)) == transactional_id


def test_a_value_has_the_bytes_that_kafka_writes() -> None:
    ongoing = Transaction(
        producer_id=0,
        producer_epoch=2,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        partitions=(("first-record", 0),),
        update_time_ms=1_794_789_283_959,
        start_time_ms=1_794_789_283_959,
        previous_producer_id=0,
        client_version=2,
    )
    assert decode_transaction(KAFKA_ONGOING) == ongoing
    assert encode_transaction(ongoing) == KAFKA_ONGOING


def test_values_of_the_first_version_are_read() -> None:
    value = bytes.fromhex("0000000000000000000700030000ea600400000001000174000000020000000000000005")
    value += (9).to_bytes(8) + (8).to_bytes(8)
    expected = Transaction(7, 3, 60_000, TransactionState.COMPLETE_COMMIT, (("t", 0), ("t", 5)), 9, 8)
    assert decode_transaction(value) == expected


def test_unknown_tagged_fields_are_ignored() -> None:
    known = Transaction(7, 3, 60_000, TransactionState.EMPTY, (), 9)
    value = encode_transaction(known)
    assert value[-1:] == b"\x00"
    assert decode_transaction(value[:-1] + b"\x01\x03\x02\x00\x05") == known


def test_keys_of_other_versions_are_ignored() -> None:
    assert decode_key(b"\x00\x01\x00\x01x") is None


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x02", KAFKA_ONGOING[:-1], KAFKA_ONGOING[:20]])
def test_an_unreadable_value_is_reported(value: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_transaction(value)


def test_an_unknown_state_is_reported() -> None:
    value = bytearray(encode_transaction(Transaction(7, 3, 60_000, TransactionState.EMPTY, (), 9)))
    value[16] = 9
    with pytest.raises(UnreadableRecord):
        decode_transaction(bytes(value))


@pytest.mark.parametrize("key", [b"", b"\x00\x00", b"\x00\x00\x00\x05x"])
def test_an_unreadable_key_is_reported(key: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_key(key)
