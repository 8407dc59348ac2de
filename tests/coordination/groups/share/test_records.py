"""The records of share groups are read as they were written, and truncated ones are rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.coordination.coordinator_shard import UnreadableRecord
from catchment.coordination.groups.modern import NO_TIMEOUT, MemberMetadata
from catchment.coordination.groups.share import records
from catchment.coordination.groups.share.group import ShareAssignment, StatePartitions, StateTopic

_names = st.text(max_size=200)
_epochs = st.integers(0, 2**31 - 1)
_numbers = st.frozensets(st.integers(0, 2**31 - 1), max_size=5)
_topics = st.dictionaries(st.uuids(), st.builds(StateTopic, _names, _numbers), max_size=3)
_partitions = st.builds(StatePartitions, _topics, _topics, st.dictionaries(st.uuids(), _names, max_size=3))
_members = st.builds(
    MemberMetadata,
    instance_id=st.none(),
    rack_id=st.none() | _names,
    client_id=_names,
    client_host=_names,
    topics=st.lists(_names, max_size=4).map(tuple),
    regex=st.none(),
    rebalance_timeout_ms=st.just(NO_TIMEOUT),
    assignor=st.none(),
    classic=st.none(),
)
_currents = st.builds(ShareAssignment, _epochs, _epochs, st.dictionaries(st.uuids(), _numbers, max_size=3))

EPOCH = b"\x00\x00\x00\x00\x00\x05\xff\xff\xff\xff\xff\xff\xff\xfe\x00"


@given(_members)
def test_a_member_is_read_as_it_was_written(member: MemberMetadata) -> None:
    assert records.decode_member(records.encode_member(member)) == member


@given(_currents)
def test_an_assignment_is_read_as_it_was_written(current: ShareAssignment) -> None:
    assert records.decode_current(records.encode_current(current)) == current


@given(_partitions)
def test_partitions_with_state_are_read_as_they_were_written(partitions: StatePartitions) -> None:
    assert records.decode_partitions(records.encode_partitions(partitions)) == partitions


def test_an_epoch_is_written_as_kafka_does() -> None:
    assert records.encode_epoch(5, -2) == EPOCH
    assert records.decode_epoch(EPOCH) == (5, -2)


@pytest.mark.parametrize(
    ("decode", "value"),
    [
        (records.decode_epoch, EPOCH),
        (records.decode_member, records.encode_member(MemberMetadata(None, "rack", "client", "/host", ("t",)))),
        (records.decode_current, records.encode_current(ShareAssignment(2, 1, {}))),
        (records.decode_partitions, records.encode_partitions(StatePartitions())),
    ],
)
def test_a_truncated_value_or_an_unknown_version_is_rejected(decode: Callable[[bytes], Any], value: bytes) -> None:
    decode(value)
    for length in range(len(value) - 1):
        with pytest.raises(UnreadableRecord):
            decode(value[:length])
    with pytest.raises(UnreadableRecord):
        decode(b"\x00\x01" + value[2:])
