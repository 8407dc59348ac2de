"""Kafka's rules for the names of topics."""

import pytest
from kio.schema.errors import ErrorCode

from catchment.cluster.new_topic import MAX_NAME_LENGTH, check_topic_name, collision_key
from catchment.protocol.errors import ApiError


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "__consumer_offsets", "x" * MAX_NAME_LENGTH])
def test_a_legal_name_is_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * (MAX_NAME_LENGTH + 1), "a b", "a/b", "ä", "a\n", "a\x00"])
def test_an_illegal_name_is_rejected(name: str) -> None:
    with pytest.raises(ApiError) as rejected:
        check_topic_name(name)
    assert rejected.value.code is ErrorCode.invalid_topic_exception


def test_names_that_differ_in_period_and_underscore_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a.b") != collision_key("a-b")
