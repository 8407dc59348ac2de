"""The records of `__share_group_state` have Kafka's bytes, and unknown ones are ignored."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.coordination.coordinator_shard import UnreadableRecord
from catchment.coordination.share_state.batches import ACKNOWLEDGED, ARCHIVED, AVAILABLE, StateBatch
from catchment.coordination.share_state.records import (
    ShareKey,
    ShareState,
    Update,
    decode_record,
    snapshot_record,
    tombstone,
    update_record,
)

KEY = ShareKey("g", UUID(int=1), 2)
KEY_TAIL = b"\x00\x01g" + UUID(int=1).bytes + b"\x00\x00\x00\x02"

i16s, i32s, i64s = (st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (16, 32, 64))
keys = st.builds(ShareKey, st.text(max_size=10), st.uuids(), i32s)
batches = st.lists(st.builds(StateBatch, i64s, i64s, st.integers(-128, 127), i16s), max_size=5).map(tuple)
states = st.builds(ShareState, i32s, i32s, i32s, i64s, i64s, i64s, batches, i32s)
updates = st.builds(Update, i32s, i32s, i64s, batches, i32s)


@given(keys, states)
def test_a_snapshot_reads_as_it_was_written(key: ShareKey, state: ShareState) -> None:
    assert decode_record(*snapshot_record(key, state)) == (key, state)


@given(keys, updates)
def test_an_update_reads_as_it_was_written(key: ShareKey, update: Update) -> None:
    assert decode_record(*update_record(key, update)) == (key, update)


def test_a_snapshot_has_the_bytes_that_kafka_writes() -> None:
    key, value = snapshot_record(KEY, ShareState(1, 2, 3, 4, 5, 6, (StateBatch(4, 7, 2, 1),), 9))
    assert key == b"\x00\x00" + KEY_TAIL
    assert value == bytes.fromhex(
        "0000 00000001 00000002 00000003 0000000000000004 0000000000000005 0000000000000006"
        "02 0000000000000004 0000000000000007 02 0001 00 01 00 04 00000009"
    )


def test_an_update_has_the_bytes_that_kafka_writes() -> None:
    key, value = update_record(KEY, Update(1, 3, -1, ()))
    assert key == b"\x00\x01" + KEY_TAIL
    assert value == bytes.fromhex("0000 00000001 00000003 ffffffffffffffff 01 00")


def test_a_null_value_is_a_tombstone() -> None:
    assert decode_record(*tombstone(KEY)) == (KEY, None)


def test_a_key_of_another_version_is_ignored() -> None:
    assert decode_record(b"\x00\x02" + KEY_TAIL, b"") is None


def test_an_unknown_tagged_field_is_ignored() -> None:
    key, value = update_record(KEY, Update(1, 3, 4, ()))
    assert value is not None
    assert decode_record(key, value[:-1] + b"\x01\x07\x02ab") == (KEY, Update(1, 3, 4, ()))


@pytest.mark.parametrize("length", [0, 1, 10, 17, 18])
def test_a_truncated_value_is_unreadable(length: int) -> None:
    key, value = update_record(KEY, Update(1, 3, 4, ()))
    assert value is not None
    with pytest.raises(UnreadableRecord):
        decode_record(key, value[:length])


def test_a_value_of_an_unknown_version_is_unreadable() -> None:
    key, value = update_record(KEY, Update(1, 3, 4, ()))
    assert value is not None
    with pytest.raises(UnreadableRecord):
        decode_record(key, b"\x00\x01" + value[2:])


@pytest.mark.parametrize(
    ("batches", "done_offset"),
    [
        ((), 10),
        ((StateBatch(10, 14, ACKNOWLEDGED, 1), StateBatch(15, 16, ARCHIVED, 5)), 17),
        ((StateBatch(10, 14, ACKNOWLEDGED, 1), StateBatch(15, 16, AVAILABLE, 1), StateBatch(17, 18, ARCHIVED, 1)), 15),
        ((StateBatch(11, 14, ACKNOWLEDGED, 1),), 10),
    ],
    ids=["nothing known", "all done", "released", "the first is open"],
)
def test_the_done_offset_is_the_first_record_that_may_be_delivered_again(
    batches: tuple[StateBatch, ...], done_offset: int
) -> None:
    state = ShareState(0, 0, 0, start_offset=10, create_time_ms=0, write_time_ms=0, batches=batches)
    assert state.done_offset == done_offset
