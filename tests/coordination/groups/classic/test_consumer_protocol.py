"""The subscriptions and assignments of classic members of type `consumer`, byte by byte."""

from __future__ import annotations

import pytest

from catchment.coordination.groups.classic.consumer_protocol import (
    EmbeddedAssignment,
    EmbeddedSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
)
from catchment.protocol.errors import MalformedRequest

TOPICS = b"\0\0\0\2\0\1u\0\1t"
NO_USER_DATA = b"\xff\xff\xff\xff"
OWNED = b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\3"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (b"\0\0" + TOPICS + NO_USER_DATA, EmbeddedSubscription(0, ("t", "u"), {}, None)),
        (b"\0\0" + TOPICS + b"\0\0\0\1x", EmbeddedSubscription(0, ("t", "u"), {}, None)),
        (b"\0\1" + TOPICS + NO_USER_DATA + OWNED, EmbeddedSubscription(1, ("t", "u"), {"t": [0, 3]}, None)),
        (
            b"\0\2" + TOPICS + NO_USER_DATA + OWNED + b"\0\0\0\7",
            EmbeddedSubscription(2, ("t", "u"), {"t": [0, 3]}, None),
        ),
        (
            b"\0\3" + TOPICS + NO_USER_DATA + OWNED + b"\0\0\0\7\0\1r",
            EmbeddedSubscription(3, ("t", "u"), {"t": [0, 3]}, "r"),
        ),
        (
            b"\0\4" + TOPICS + NO_USER_DATA + OWNED + b"\0\0\0\7\xff\xffsomething newer",
            EmbeddedSubscription(4, ("t", "u"), {"t": [0, 3]}, None),
        ),
    ],
)
def test_subscriptions_of_every_version_are_read(metadata: bytes, expected: EmbeddedSubscription) -> None:
    assert read_subscription(metadata) == expected


@pytest.mark.parametrize("metadata", [b"", b"\xff\xff", b"\0\1" + TOPICS + NO_USER_DATA, b"\0\0\7\0\0\0"])
def test_other_bytes_are_rejected(metadata: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_subscription(metadata)


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_reads_as_it_was_written(version: int) -> None:
    written = write_assignment({"u": [1], "t": [2, 0]}, version)
    assert written[:2] == bytes((0, version))
    assert read_assignment(written) == EmbeddedAssignment({"t": [0, 2], "u": [1]}, has_user_data=False)


def test_an_assignment_is_written_in_a_known_version() -> None:
    assert write_assignment({}, 9)[:2] == b"\0\3"


def test_user_data_is_detected() -> None:
    assert read_assignment(b"\0\0\0\0\0\0\0\0\0\1x").has_user_data
    assert not read_assignment(b"\0\0\0\0\0\0\0\0\0\0").has_user_data
    assert read_assignment(b"") == EmbeddedAssignment({}, has_user_data=False)
    with pytest.raises(MalformedRequest):
        read_assignment(b"\xff\xff\0\0")
