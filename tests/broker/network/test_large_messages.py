"""Requests and responses that a thread decodes and encodes: same content, same order, and the loop is not blocked."""

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from catchment.broker.context import NO_THROTTLE
from catchment.broker.network.large_messages import LARGE_FRAME_BYTES, LARGE_RESPONSE_ELEMENTS, is_large
from catchment.protocol.client import ClientProtocol
from catchment.testing.embedded import Broker

TIMEOUT_S = 150.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def ask_all(broker: Broker, *requests: tuple[Any, int]) -> list[Any]:
    """Send the requests without waiting, and return the answers in the order in which they come."""
    client = ClientProtocol("large")
    host, port = broker.bootstrap_servers.split(":")
    answers: list[Any] = []
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"".join(client.request(request, version) for request, version in requests))
        while len(answers) < len(requests):
            received = connection.recv(1 << 20)
            assert received, "the broker closed the connection"
            answers += [answer.decode() for answer in client.receive(received)]
    return answers


def metadata_of(*names: str) -> MetadataRequest:
    return MetadataRequest(
        topics=tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def test_a_large_request_is_answered_before_the_small_one_that_follows(broker: Broker) -> None:
    names = [f"unknown-{number:08d}" for number in range(3 * LARGE_FRAME_BYTES // 16)]
    small = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    large, following = ask_all(broker, (metadata_of(*names), 13), (small, 4))
    assert [topic.name for topic in large.topics] == names
    assert {topic.error_code for topic in large.topics} == {ErrorCode.unknown_topic_or_partition}
    assert following.error_code is ErrorCode.none
    assert following.api_keys


def test_a_small_request_may_have_a_large_response(broker: Broker) -> None:
    broker.create_topic("wide", LARGE_RESPONSE_ELEMENTS + 1)
    broker.create_topic("narrow")
    wide, narrow = ask_all(broker, (metadata_of("wide"), 13), (metadata_of("narrow"), 13))
    assert len(wide.topics[0].partitions) == LARGE_RESPONSE_ELEMENTS + 1
    assert len(narrow.topics[0].partitions) == 1


def test_a_large_request_that_cannot_be_read_ends_its_connection(broker: Broker) -> None:
    frame = bytearray(ClientProtocol("large").request(metadata_of("x" * LARGE_FRAME_BYTES), 13))
    frame[-5:] = b"\xff" * 5
    host, port = broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.sendall(frame)
        with pytest.raises((ConnectionError, struct.error)):
            struct.unpack(">i", connection.recv(4))
    assert ask_all(broker, (metadata_of("still-there"), 13))


def response(partitions_of_topics: list[int]) -> MetadataResponse:
    partition = MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(0),
        leader_id=BrokerId(0),
        leader_epoch=i32(0),
        replica_nodes=(BrokerId(0),),
        isr_nodes=(),
        offline_replicas=(),
    )
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(),
        cluster_id="c",
        controller_id=BrokerId(0),
        topics=tuple(
            MetadataResponseTopic(
                error_code=ErrorCode.none,
                name=TopicName("t"),
                topic_id=None,
                is_internal=False,
                partitions=(partition,) * count,
            )
            for count in partitions_of_topics
        ),
        error_code=ErrorCode.none,
    )


@pytest.mark.parametrize(
    ("partitions_of_topics", "expected"),
    [
        ([], False),
        ([1], False),
        ([0] * LARGE_RESPONSE_ELEMENTS, False),
        ([0] * (LARGE_RESPONSE_ELEMENTS + 1), True),
        # A topic, its partitions, and the one replica of each.
        ([(LARGE_RESPONSE_ELEMENTS - 1) // 2], False),
        ([(LARGE_RESPONSE_ELEMENTS + 1) // 2], True),
        ([1] * LARGE_RESPONSE_ELEMENTS, True),
    ],
)
def test_elements_are_counted_over_all_arrays(partitions_of_topics: list[int], expected: bool) -> None:
    assert is_large(response(partitions_of_topics)) is expected
