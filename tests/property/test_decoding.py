"""Whatever the bytes, a frame is read or rejected as malformed. Nothing is allocated for a count that the frame merely claims."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from tests.broker.hostile_frames import Forge

from catchment.protocol import codec, fetch, produce
from catchment.protocol.apis import APIS
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.headers import RequestHeader, parse_request_header

FRAMES_A_SEED = 10_000
MEMORY_BYTES = 64 * 1024 * 1024
EVERY_API = [(key, api.oldest, api.newest) for key, api in APIS.items()]


def decode(frame: memoryview, header: RequestHeader) -> object:
    if header.api_key == produce.API_KEY:
        return produce.decode_request(frame, header.body_offset, header.api_version)
    if header.api_key == fetch.API_KEY:
        return fetch.decode_request(frame, header.body_offset, header.api_version)
    return codec.decode_request(header.api_key, header.api_version, frame[header.body_offset :])


def is_known(header: RequestHeader) -> bool:
    api = APIS.get(header.api_key)
    return api is not None and api.oldest <= header.api_version <= api.newest


@pytest.mark.parametrize("seed", range(4))
def test_a_frame_is_read_or_rejected(seed: int) -> None:
    read = rejected = 0
    for framed in Forge(EVERY_API, Random(seed)).frames(FRAMES_A_SEED):
        frame = memoryview(framed)[4:]
        try:
            header = parse_request_header(frame)
            if is_known(header):
                decode(frame, header)
                read += 1
        except MalformedRequest:
            rejected += 1
    assert read > FRAMES_A_SEED // 20
    assert rejected > FRAMES_A_SEED // 20


def test_no_count_in_a_frame_is_trusted() -> None:
    frames = list(Forge(EVERY_API, Random(99)).frames(FRAMES_A_SEED // 5))
    tracemalloc.start()
    try:
        for framed in frames:
            frame = memoryview(framed)[4:]
            try:
                header = parse_request_header(frame)
                if is_known(header):
                    decode(frame, header)
            except MalformedRequest:
                continue
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < MEMORY_BYTES
