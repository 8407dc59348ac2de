"""Our own encoder of ShareFetch responses compared with kio's, at every version."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from kio.schema.share_fetch.v2.response import ShareFetchResponse
from tests.protocol.messages import messages

from catchment.protocol import codec
from catchment.protocol.share_fetch import encode_response

NO_TIME = timedelta(0)


@pytest.mark.parametrize("version", [1, 2])
@given(response=messages(ShareFetchResponse))
def test_responses_are_encoded_as_by_kio(response: Any, version: int) -> None:
    response = replace(response, throttle_time=NO_TIME)
    assert b"".join(encode_response(response)) == codec.encode_response(response, version)


@given(response=messages(ShareFetchResponse))
def test_the_throttle_time_is_in_the_response(response: Any) -> None:
    paused = replace(response, throttle_time=timedelta(milliseconds=1234))
    assert b"".join(encode_response(response, 1234)) == codec.encode_response(paused, 2)


@given(response=messages(ShareFetchResponse))
def test_records_are_separate_pieces(response: Any) -> None:
    pieces = encode_response(response)
    all_records = [partition.records for topic in response.responses for partition in topic.partitions]
    assert [piece for piece in pieces if isinstance(piece, bytes)] == [records for records in all_records if records]
