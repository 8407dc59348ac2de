"""Error answers: every API, every version that is served, readable by the client and with the error where it looks."""

from __future__ import annotations

from random import Random

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.hostile_frames import Forge

from catchment.broker.handlers import CLAIMS
from catchment.protocol import codec
from catchment.protocol.apis import APIS
from catchment.protocol.headers import parse_request_header
from catchment.testing.error_answers import error_answer

CODE = ErrorCode.not_leader_or_follower
HAND_WRITTEN = (0, 1)
"""Produce and Fetch have messages of their own; their answers are tested with a client."""
SERVED = [
    (key, version)
    for key, claim in CLAIMS.items()
    if key not in HAND_WRITTEN
    for version in range(claim.oldest, claim.newest + 1)
]


@pytest.mark.parametrize(("key", "version"), SERVED, ids=[f"{APIS[key].name}-{version}" for key, version in SERVED])
def test_the_answer_can_be_encoded_and_read_in_every_version(key: int, version: int) -> None:
    forge = Forge([], Random(key))
    for _ in range(5):
        frame = forge.valid_frame(key, version)
        request = codec.decode_request(key, version, frame[parse_request_header(frame).body_offset :])
        answer = error_answer(key, request, CODE)
        assert codec.decode_response(key, version, codec.encode_response(answer, version)) is not None


def test_the_error_stands_at_the_partition_where_there_is_one() -> None:
    forge = Forge([], Random(1))
    for _ in range(20):
        frame = forge.valid_frame(2, 8)
        request = codec.decode_request(2, 8, frame[parse_request_header(frame).body_offset :])
        answer = error_answer(2, request, CODE)
        asked = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
        told = [
            (topic.name, one.partition_index, one.error_code) for topic in answer.topics for one in topic.partitions
        ]
        assert told == [(name, partition, CODE) for name, partition in asked]


def test_the_error_stands_at_the_top_where_nothing_smaller_was_asked_about() -> None:
    forge = Forge([], Random(1))
    frame = forge.valid_frame(22, 5)
    request = codec.decode_request(22, 5, frame[parse_request_header(frame).body_offset :])
    assert error_answer(22, request, CODE).error_code is CODE
