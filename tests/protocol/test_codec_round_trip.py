"""Every message at every version: kio's bytes become the newest class, and that becomes the same bytes again."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from tests.protocol.messages import KINDS, messages, versions

from catchment.protocol.apis import APIS, newest, request_class, response_class
from catchment.protocol.codec import decode_request, decode_response, encode_request, encode_response

# Between Kafka's own controllers, and never sent by a Catchment broker: their fields were replaced, not added to.
NOT_ADAPTED = {(54, 0, "request"), (56, 2, "request")}

CODECS = {"request": (decode_request, encode_request), "response": (decode_response, encode_response)}


def written(message: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("api_key", "version"), [pytest.param(key, at, id=f"{APIS[key].name}-{at}") for key in APIS for at in versions(key)]
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_message_of_any_version_survives_lifting_and_lowering(
    api_key: int, version: int, data: st.DataObject
) -> None:
    for kind, load in KINDS.items():
        if (api_key, version, kind) in NOT_ADAPTED:
            continue
        decode, encode = CODECS[kind]
        wire = written(data.draw(messages(load(api_key, version))))
        lifted = decode(api_key, version, memoryview(wire))
        assert isinstance(lifted, load(api_key, newest(api_key)))
        assert encode(lifted, version) == wire


@pytest.mark.parametrize("api_key", APIS, ids=lambda key: APIS[key].name)
def test_every_message_class_loads_and_has_a_reader(api_key: int) -> None:
    for version in versions(api_key):
        for message_class in (request_class(api_key, version), response_class(api_key, version)):
            assert message_class.__version__ == version
            assert message_class.__api_key__ == api_key
            assert callable(entity_reader(message_class))
