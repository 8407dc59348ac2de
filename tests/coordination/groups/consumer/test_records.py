"""The records of consumer groups are read as they were written, and unreadable ones are reported."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.coordination.coordinator_shard import UnreadableRecord
from catchment.coordination.groups import modern_records
from catchment.coordination.groups.consumer import records
from catchment.coordination.groups.consumer.group import CurrentAssignment, MemberState, ResolvedRegex
from catchment.coordination.groups.modern import ClassicProtocol, MemberMetadata

names = st.text(max_size=20)
optional = st.none() | names
epochs = st.integers(-2, 2**31 - 1)
numbers = st.integers(0, 2**31 - 1)
times = st.integers(-(2**63), 2**63 - 1)
partitions = st.dictionaries(st.uuids(), st.dictionaries(numbers, epochs, min_size=1, max_size=4), max_size=3)
classic = st.builds(ClassicProtocol, numbers, st.lists(st.tuples(names, st.binary(max_size=30)), max_size=3).map(tuple))
subscriptions = st.builds(
    MemberMetadata,
    optional,
    optional,
    names,
    names,
    st.lists(names, max_size=3).map(tuple),
    optional,
    epochs,
    optional,
    st.none() | classic,
)


@given(subscriptions)
def test_a_member_reads_as_it_was_written(member: MemberMetadata) -> None:
    assert records.decode_member(records.encode_member(member)) == member


@given(st.builds(CurrentAssignment, epochs, epochs, st.sampled_from(MemberState), partitions, partitions))
def test_an_assignment_reads_as_it_was_written(current: CurrentAssignment) -> None:
    assert records.decode_current(records.encode_current(current)) == current


@given(st.dictionaries(st.uuids(), st.frozensets(numbers, min_size=1, max_size=4), max_size=3))
def test_a_target_reads_as_it_was_written(target: dict[UUID, frozenset[int]]) -> None:
    assert modern_records.decode_target(modern_records.encode_target(target)) == target


@given(epochs, times)
def test_epochs_read_as_they_were_written(epoch: int, number: int) -> None:
    assert records.decode_epoch(records.encode_epoch(epoch, number)) == (epoch, number)
    assert modern_records.decode_target_epoch(modern_records.encode_target_epoch(epoch, number)) == epoch


@given(st.builds(ResolvedRegex, st.lists(names, max_size=3).map(tuple), times, times))
def test_an_expression_reads_as_it_was_written(resolved: ResolvedRegex) -> None:
    assert records.decode_regex(records.encode_regex(resolved)) == resolved


@given(names, st.none() | names)
def test_a_key_reads_as_it_was_written(group_id: str, name: str | None) -> None:
    assert modern_records.decode_key(modern_records.encode_key(8, group_id, name)) == (group_id, name or "")


def test_an_assignment_without_epochs_of_an_older_kafka_is_read() -> None:
    topic_id = UUID(int=7)
    value = b"\0\0" + b"\0\0\0\5" + b"\0\0\0\4" + b"\0" + b"\2" + topic_id.bytes + b"\2\0\0\0\3\0" + b"\1" + b"\0"
    assert records.decode_current(value) == CurrentAssignment(5, 4, MemberState.STABLE, {topic_id: {3: 0}}, {})


@pytest.mark.parametrize("decode", [records.decode_member, records.decode_current, records.decode_epoch])
@pytest.mark.parametrize("value", [b"", b"\0\1\0\0\0\1\0", b"\0\0", b"\0\0\0\0\1"])
def test_unreadable_values_are_reported(decode: object, value: bytes) -> None:
    assert callable(decode)
    with pytest.raises(UnreadableRecord):
        decode(value)


def test_a_tagged_field_of_the_wrong_size_is_reported() -> None:
    with pytest.raises(UnreadableRecord, match="the epoch of a group"):
        records.decode_epoch(b"\0\0" + b"\0\0\0\5" + b"\1\0\4" + bytes(4))


def test_a_member_whose_classic_protocol_is_null_or_nothing_has_none() -> None:
    member = records.encode_member(MemberMetadata())
    for tag in (b"\1\0\0", b"\1\0\1\0"):
        assert records.decode_member(member[:-1] + tag).classic is None


def test_an_unreadable_key_or_state_is_reported() -> None:
    with pytest.raises(UnreadableRecord):
        modern_records.decode_key(b"\0\3\0\5ab")
    with pytest.raises(UnreadableRecord, match="127"):
        records.decode_current(b"\0\0" + b"\0\0\0\5" + b"\0\0\0\4" + b"\x7f" + b"\1\1\0")
