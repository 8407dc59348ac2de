"""The records of `__consumer_offsets` are read as they were written, in all versions that Kafka has ever written."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.coordination.coordinator_shard import UnreadableRecord
from catchment.coordination.groups.classic.consumer_protocol import subscribed_topics
from catchment.coordination.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    MemberRecord,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)

texts = st.text(max_size=30)
i32s = st.integers(-(2**31), 2**31 - 1)
i64s = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    MemberRecord,
    texts,
    st.none() | texts,
    texts,
    texts,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.binary(max_size=50),
    st.binary(max_size=50),
)
groups = st.builds(
    GroupRecord, texts, i32s, st.none() | texts, st.none() | texts, i64s, st.lists(members, max_size=4).map(tuple)
)


@given(st.builds(OffsetKey, texts, texts, i32s))
def test_an_offset_key_is_read_as_it_was_written(key: OffsetKey) -> None:
    assert decode_key(encode_offset_key(key)) == key


@given(texts)
def test_a_group_key_is_read_as_it_was_written(group_id: str) -> None:
    assert decode_key(encode_group_key(GroupKey(group_id))) == GroupKey(group_id)


@given(st.builds(CommittedOffset, i64s, i32s, texts, i64s, st.just(-1)))
def test_an_offset_is_read_as_it_was_written(committed: CommittedOffset) -> None:
    assert decode_offset(encode_offset(committed)) == committed


@given(groups)
def test_a_group_is_read_as_it_was_written(group: GroupRecord) -> None:
    assert decode_group(encode_group(group)) == group


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    for decode in (decode_key, decode_offset, decode_group):
        try:
            decode(data)
        except UnreadableRecord:
            continue


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (struct.pack(">hqh2sq", 0, 7, 2, b"me", 5), CommittedOffset(7, -1, "me", 5)),
        (struct.pack(">hqh2sqq", 1, 7, 2, b"me", 5, 9), CommittedOffset(7, -1, "me", 5, 9)),
        (struct.pack(">hqh2sq", 2, 7, 2, b"me", 5), CommittedOffset(7, -1, "me", 5)),
        (struct.pack(">hqih2sq", 3, 7, 4, 2, b"me", 5), CommittedOffset(7, 4, "me", 5)),
        (struct.pack(">hqib2sqb", 4, 7, 4, 3, b"me", 5, 0), CommittedOffset(7, 4, "me", 5)),
    ],
    ids=range(5),
)
def test_every_version_of_an_offset_is_read(value: bytes, expected: CommittedOffset) -> None:
    assert decode_offset(value) == expected


@pytest.mark.parametrize(
    ("value", "instance_id", "rebalance_timeout_ms", "state_time_ms"),
    [
        (struct.pack(">hh1sih1sh1sih1sh1sh1sii1si1s", 0, 1, b"c", 3, 1, b"r", 1, b"m", 1, *_V0), None, 6, -1)
        for _V0 in [(1, b"m", 1, b"i", 1, b"h", 6, 1, b"s", 1, b"a")]
    ]
    + [
        (struct.pack(">hh1sih1sh1sih1sh1sh1siii1si1s", 1, 1, b"c", 3, 1, b"r", 1, b"m", 1, *_V1), None, 5, -1)
        for _V1 in [(1, b"m", 1, b"i", 1, b"h", 5, 6, 1, b"s", 1, b"a")]
    ]
    + [
        (struct.pack(">hh1sih1sh1sqih1sh1sh1siii1si1s", 2, 1, b"c", 3, 1, b"r", 1, b"m", 8, 1, *_V2), None, 5, 8)
        for _V2 in [(1, b"m", 1, b"i", 1, b"h", 5, 6, 1, b"s", 1, b"a")]
    ]
    + [
        (struct.pack(">hh1sih1sh1sqih1sh1sh1sh1siii1si1s", 3, 1, b"c", 3, 1, b"r", 1, b"m", 8, 1, *_V3), "x", 5, 8)
        for _V3 in [(1, b"m", 1, b"x", 1, b"i", 1, b"h", 5, 6, 1, b"s", 1, b"a")]
    ]
    + [
        (struct.pack(">hb1sib1sb1sqbb1sb1sb1sb1siib1sb1sbb", 4, 2, b"c", 3, 2, b"r", 2, b"m", 8, 2, *_V4), "x", 5, 8)
        for _V4 in [(2, b"m", 2, b"x", 2, b"i", 2, b"h", 5, 6, 2, b"s", 2, b"a", 0, 0)]
    ],
    ids=range(5),
)
def test_every_version_of_a_group_is_read(
    value: bytes, instance_id: str | None, rebalance_timeout_ms: int, state_time_ms: int
) -> None:
    member = MemberRecord("m", instance_id, "i", "h", rebalance_timeout_ms, 6, b"s", b"a")
    assert decode_group(value) == GroupRecord("c", 3, "r", "m", state_time_ms, (member,))


def test_keys_of_other_versions_are_ignored() -> None:
    assert decode_key(struct.pack(">hh1s", 3, 1, b"g")) is None


def test_an_unknown_version_is_rejected() -> None:
    with pytest.raises(UnreadableRecord):
        decode_offset(struct.pack(">hq", 5, 7))


def test_the_topics_of_a_subscription_are_read() -> None:
    assert subscribed_topics(struct.pack(">hih1sh2s", 3, 2, 1, b"a", 2, b"bc")) == frozenset({"a", "bc"})
    assert subscribed_topics(b"\x00") is None
