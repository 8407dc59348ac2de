"""Error responses: every API at every version, decoded by the client, with the error where it looks."""

from __future__ import annotations

from random import Random

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.hostile_frames import Forge

from catchment.broker.handlers import CLAIMS
from catchment.protocol import codec
from catchment.protocol.apis import APIS
from catchment.protocol.headers import parse_request_header
from catchment.testing.error_responses import error_response

CODE = ErrorCode.not_leader_or_follower
HAND_WRITTEN = (0, 1)
"""Produce and Fetch have their own messages; their responses are tested with a client."""
SERVED = [
    (key, version)
    for key, claim in CLAIMS.items()
    if key not in HAND_WRITTEN
    for version in range(claim.oldest, claim.newest + 1)
]


@pytest.mark.parametrize(("key", "version"), SERVED, ids=[f"{APIS[key].name}-{version}" for key, version in SERVED])
def test_the_response_can_be_encoded_and_decoded_at_every_version(key: int, version: int) -> None:
    forge = Forge([], Random(key))
    for _ in range(5):
        frame = forge.valid_frame(key, version)
        request = codec.decode_request(key, version, frame[parse_request_header(frame).body_offset :])
        answer = error_response(key, request, CODE)
        assert codec.decode_response(key, version, codec.encode_response(answer, version)) is not None


def test_the_error_is_at_the_partition_if_there_is_one() -> None:
    forge = Forge([], Random(1))
    for _ in range(20):
        frame = forge.valid_frame(2, 8)
        request = codec.decode_request(2, 8, frame[parse_request_header(frame).body_offset :])
        answer = error_response(2, request, CODE)
        asked = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
        told = [
            (topic.name, one.partition_index, one.error_code) for topic in answer.topics for one in topic.partitions
        ]
        assert told == [(name, partition, CODE) for name, partition in asked]


def test_the_error_is_at_the_top_level_if_there_is_no_smaller_unit() -> None:
    forge = Forge([], Random(1))
    frame = forge.valid_frame(22, 5)
    request = codec.decode_request(22, 5, frame[parse_request_header(frame).body_offset :])
    assert error_response(22, request, CODE).error_code is CODE
