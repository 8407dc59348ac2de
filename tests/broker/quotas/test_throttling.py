"""A running broker with quotas: responses carry the throttle time, and the connection is muted until it has passed."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32
from tests.broker.handlers.log_requests import batch, fetch_request, produce_request, topic_id, values_in
from tests.broker.handlers.quota_requests import set_quotas
from tests.broker.handlers.test_create_topics import TIMEOUT, topic
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker

CLIENT: dict[str, str | None] = {"client-id": "test"}
VALUE = bytes(2000)
LISTING = MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
_WINDOW_S = 10


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as connected:
        yield connected


def throttle_ms(answer: Any) -> int:
    milliseconds: float = answer.throttle_time.total_seconds() * 1000
    return round(milliseconds)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started_s = time.monotonic()
    answer = call()
    return time.monotonic() - started_s, answer


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_a_producer_beyond_its_quota_is_muted_for_the_throttle_time(wire: Wire, version: int) -> None:
    # The size of this request over the window exceeds the limit by a hundredth or two.
    request = produce_request(wire, "t", batch(VALUE), version=version)
    set_quotas(wire, CLIENT, producer_byte_rate=round((len(VALUE) + 80) / _WINDOW_S / 1.02))
    started_s = time.monotonic()
    answer = wire.ask(request, version)
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    assert 0 < throttle_ms(answer) < 1000
    unthrottled = wire.ask(LISTING, 12)
    assert time.monotonic() - started_s >= throttle_ms(answer) / 1000
    assert throttle_ms(unthrottled) == 0


def test_the_response_with_the_throttle_time_is_sent_at_once(wire: Wire) -> None:
    request = produce_request(wire, "t", batch(VALUE))
    set_quotas(wire, CLIENT, producer_byte_rate=10)
    took_s, answer = timed(lambda: wire.ask(request, 13))
    assert took_s < 60 < throttle_ms(answer) / 1000


def test_requests_that_were_sent_before_the_first_response_wait_too(wire: Wire) -> None:
    request = produce_request(wire, "t", batch(VALUE))
    set_quotas(wire, CLIENT, producer_byte_rate=200)

    def ask_both() -> int:
        wire.send(request, 13)
        wire.send(LISTING, 12)
        received_ms = throttle_ms(wire.receive())
        wire.receive()
        return received_ms

    took_s, received_ms = timed(ask_both)
    assert 0 < received_ms / 1000 <= took_s


def test_a_producer_without_acknowledgements_is_muted_without_a_response(wire: Wire) -> None:
    request = produce_request(wire, "t", batch(VALUE), acks=0)
    set_quotas(wire, CLIENT, producer_byte_rate=200)

    def ask_both() -> None:
        wire.send(request, 13)
        wire.ask(LISTING, 12)

    took_s, _ = timed(ask_both)
    assert took_s >= (len(VALUE) / 200 / _WINDOW_S - 1) * _WINDOW_S


@pytest.mark.parametrize("version", [4, 18])
def test_a_consumer_beyond_its_quota_gets_an_empty_response_and_the_data_after_the_throttle_time(
    wire: Wire, version: int
) -> None:
    key, size = _two_batches(wire)
    set_quotas(wire, CLIENT, consumer_byte_rate=round(2 * size / _WINDOW_S / 1.08))

    def ask(offset: int) -> Any:
        topic_key = key if version >= 13 else "t"
        return wire.ask(fetch_request(topic_key, (0, offset), partition_max_bytes=size), version)

    first = ask(0)
    assert throttle_ms(first) == 0
    assert values_in(first.responses[0].partitions[0].records) == [VALUE]
    second = ask(1)
    assert 0 < throttle_ms(second) < 1000
    assert second.responses == ()
    # A throttle time is rounded, so a fetch right at its end may be throttled for another millisecond.
    got = next(answer for answer in (ask(1) for _ in range(5)) if answer.responses)
    assert values_in(got.responses[0].partitions[0].records) == [VALUE]


def test_a_throttled_session_continues_and_a_throttled_new_session_is_not_created(broker: Broker, wire: Wire) -> None:
    key, size = _two_batches(wire)
    set_quotas(wire, CLIENT, consumer_byte_rate=round(size / _WINDOW_S * 1.2))

    def ask(offset: int, session_id: int, epoch: int) -> Any:
        # From a connection of its own each time, so that no request waits for the end of a throttle time.
        with Wire(broker) as fresh:
            request = fetch_request(key, (0, offset), partition_max_bytes=size, session=(session_id, epoch))
            return fresh.ask(request, 18)

    begun = ask(0, 0, 0)
    assert begun.session_id > 0
    another = ask(1, 0, 0)
    assert (another.session_id, another.responses) == (0, ())
    throttled = ask(1, begun.session_id, 1)
    assert (throttled.session_id, throttled.responses) == (begun.session_id, ())
    assert min(throttle_ms(another), throttle_ms(throttled)) > 0
    continued = ask(2, begun.session_id, 2)
    assert (continued.error_code, continued.session_id) == (ErrorCode.none, begun.session_id)


def test_every_response_that_can_carries_the_throttle_time_of_the_request_quota(wire: Wire) -> None:
    set_quotas(wire, CLIENT, request_percentage=0.000_1)
    assert 0 < throttle_ms(wire.ask(LISTING, 12)) <= 1000


def test_topics_beyond_the_mutation_rate_are_rejected_with_a_throttle_time(broker: Broker, wire: Wire) -> None:
    set_quotas(wire, CLIENT, controller_mutation_rate=1)

    def create(name: str, partitions: int, version: int) -> Any:
        asked = CreateTopicsRequest(topics=(topic(name, partitions),), timeout=TIMEOUT, validate_only=False)
        with Wire(broker) as fresh:
            return fresh.ask(asked, version)

    burst = create("burst", 71, 7)
    assert (burst.topics[0].error_code, throttle_ms(burst)) == (ErrorCode.none, 0)
    rejected = create("rejected", 1, 7)
    assert rejected.topics[0].error_code is ErrorCode.throttling_quota_exceeded
    assert 0 < throttle_ms(rejected) <= 60_000
    slowed = create("slowed", 1, 5)
    assert slowed.topics[0].error_code is ErrorCode.none
    assert throttle_ms(slowed) > 0


def test_growth_and_deletion_of_topics_count_as_mutations_too(broker: Broker, wire: Wire) -> None:
    set_quotas(wire, CLIENT, controller_mutation_rate=1)

    def grow(count: int) -> Any:
        asked = CreatePartitionsTopic(name=TopicName("t"), count=i32(count), assignments=None)
        with Wire(broker) as fresh:
            return fresh.ask(CreatePartitionsRequest(topics=(asked,), timeout=TIMEOUT, validate_only=False), 3)

    assert grow(72).results[0].error_code is ErrorCode.none
    rejected = grow(73)
    assert rejected.results[0].error_code is ErrorCode.throttling_quota_exceeded
    assert throttle_ms(rejected) > 0
    asked = DeleteTopicState(name=TopicName("t"), topic_id=None)
    deletion = wire.ask(DeleteTopicsRequest(topics=(asked,), timeout=TIMEOUT), 6)
    assert deletion.responses[0].error_code is ErrorCode.throttling_quota_exceeded


def test_connections_beyond_the_rate_of_an_address_are_closed(broker: Broker, wire: Wire) -> None:
    set_quotas(wire, {"ip": "127.0.0.1"}, connection_creation_rate=1)
    host, _, port = broker.bootstrap_servers.rpartition(":")
    opened = [socket.create_connection((host, int(port)), timeout=30) for _ in range(20)]
    try:
        assert opened[-1].recv(1) == b""
    finally:
        for each in opened:
            each.close()


def test_a_client_without_a_quota_is_not_throttled_by_quotas_of_others(wire: Wire) -> None:
    set_quotas(wire, {"client-id": "another"}, producer_byte_rate=1, request_percentage=0.001)
    answer = wire.ask(produce_request(wire, "t", batch(VALUE)), 13)
    assert throttle_ms(answer) == 0


def _two_batches(wire: Wire) -> tuple[Any, int]:
    """The id of a topic with two batches of one size, and that size."""
    for _ in range(2):
        wire.ask(produce_request(wire, "t", batch(VALUE)), 13)
    return topic_id(wire, "t"), len(batch(VALUE))
