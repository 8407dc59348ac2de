"""A running broker with quotas: answers tell the pause and leave at once, and the connection is not read until it is over."""

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


def pause_ms(answer: Any) -> int:
    milliseconds: float = answer.throttle_time.total_seconds() * 1000
    return round(milliseconds)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started_s = time.monotonic()
    answer = call()
    return time.monotonic() - started_s, answer


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_a_producer_beyond_its_quota_is_not_read_for_the_time_told(wire: Wire, version: int) -> None:
    # The size of this very request over the window is the bound but for a hundredth or two.
    request = produce_request(wire, "t", batch(VALUE), version=version)
    set_quotas(wire, CLIENT, producer_byte_rate=round((len(VALUE) + 80) / _WINDOW_S / 1.02))
    started_s = time.monotonic()
    answer = wire.ask(request, version)
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    assert 0 < pause_ms(answer) < 1000
    unthrottled = wire.ask(LISTING, 12)
    assert time.monotonic() - started_s >= pause_ms(answer) / 1000
    assert pause_ms(unthrottled) == 0


def test_the_answer_that_tells_of_the_pause_does_not_wait_for_its_end(wire: Wire) -> None:
    request = produce_request(wire, "t", batch(VALUE))
    set_quotas(wire, CLIENT, producer_byte_rate=10)
    took_s, answer = timed(lambda: wire.ask(request, 13))
    assert took_s < 60 < pause_ms(answer) / 1000


def test_requests_that_were_sent_before_the_first_answer_wait_too(wire: Wire) -> None:
    request = produce_request(wire, "t", batch(VALUE))
    set_quotas(wire, CLIENT, producer_byte_rate=200)

    def ask_both() -> int:
        wire.send(request, 13)
        wire.send(LISTING, 12)
        told_ms = pause_ms(wire.receive())
        wire.receive()
        return told_ms

    took_s, told_ms = timed(ask_both)
    assert 0 < told_ms / 1000 <= took_s


def test_a_producer_without_acknowledgements_is_muted_though_nothing_can_tell_it(wire: Wire) -> None:
    request = produce_request(wire, "t", batch(VALUE), acks=0)
    set_quotas(wire, CLIENT, producer_byte_rate=200)

    def ask_both() -> None:
        wire.send(request, 13)
        wire.ask(LISTING, 12)

    took_s, _ = timed(ask_both)
    assert took_s >= (len(VALUE) / 200 / _WINDOW_S - 1) * _WINDOW_S


@pytest.mark.parametrize("version", [4, 18])
def test_a_consumer_beyond_its_quota_gets_an_empty_answer_and_the_data_after_the_pause(
    wire: Wire, version: int
) -> None:
    key, size = _two_batches(wire)
    set_quotas(wire, CLIENT, consumer_byte_rate=round(2 * size / _WINDOW_S / 1.08))

    def ask(offset: int) -> Any:
        topic_key = key if version >= 13 else "t"
        return wire.ask(fetch_request(topic_key, (0, offset), partition_max_bytes=size), version)

    first = ask(0)
    assert pause_ms(first) == 0
    assert values_in(first.responses[0].partitions[0].records) == [VALUE]
    second = ask(1)
    assert 0 < pause_ms(second) < 1000
    assert second.responses == ()
    # A pause is rounded, so that a fetch right at its end may be told to wait for another millisecond.
    got = next(answer for answer in (ask(1) for _ in range(5)) if answer.responses)
    assert values_in(got.responses[0].partitions[0].records) == [VALUE]


def test_a_throttled_session_goes_on_and_one_that_was_to_begin_begins_another_time(broker: Broker, wire: Wire) -> None:
    key, size = _two_batches(wire)
    set_quotas(wire, CLIENT, consumer_byte_rate=round(size / _WINDOW_S * 1.2))

    def ask(offset: int, session_id: int, epoch: int) -> Any:
        # From a connection of its own each time, so that nobody waits for the end of a pause.
        with Wire(broker) as fresh:
            request = fetch_request(key, (0, offset), partition_max_bytes=size, session=(session_id, epoch))
            return fresh.ask(request, 18)

    begun = ask(0, 0, 0)
    assert begun.session_id > 0
    another = ask(1, 0, 0)
    assert (another.session_id, another.responses) == (0, ())
    throttled = ask(1, begun.session_id, 1)
    assert (throttled.session_id, throttled.responses) == (begun.session_id, ())
    assert min(pause_ms(another), pause_ms(throttled)) > 0
    going_on = ask(2, begun.session_id, 2)
    assert (going_on.error_code, going_on.session_id) == (ErrorCode.none, begun.session_id)


def test_every_answer_that_can_tells_of_the_time_that_requests_took(wire: Wire) -> None:
    set_quotas(wire, CLIENT, request_percentage=0.000_1)
    assert 0 < pause_ms(wire.ask(LISTING, 12)) <= 1000


def test_topics_beyond_the_mutation_rate_are_refused_with_the_time_to_wait(broker: Broker, wire: Wire) -> None:
    set_quotas(wire, CLIENT, controller_mutation_rate=1)

    def create(name: str, partitions: int, version: int) -> Any:
        asked = CreateTopicsRequest(topics=(topic(name, partitions),), timeout=TIMEOUT, validate_only=False)
        with Wire(broker) as fresh:
            return fresh.ask(asked, version)

    burst = create("burst", 71, 7)
    assert (burst.topics[0].error_code, pause_ms(burst)) == (ErrorCode.none, 0)
    refused = create("refused", 1, 7)
    assert refused.topics[0].error_code is ErrorCode.throttling_quota_exceeded
    assert 0 < pause_ms(refused) <= 60_000
    slowed = create("slowed", 1, 5)
    assert slowed.topics[0].error_code is ErrorCode.none
    assert pause_ms(slowed) > 0


def test_growth_and_deletion_of_topics_count_as_mutations_too(broker: Broker, wire: Wire) -> None:
    set_quotas(wire, CLIENT, controller_mutation_rate=1)

    def grow(count: int) -> Any:
        asked = CreatePartitionsTopic(name=TopicName("t"), count=i32(count), assignments=None)
        with Wire(broker) as fresh:
            return fresh.ask(CreatePartitionsRequest(topics=(asked,), timeout=TIMEOUT, validate_only=False), 3)

    assert grow(72).results[0].error_code is ErrorCode.none
    refused = grow(73)
    assert refused.results[0].error_code is ErrorCode.throttling_quota_exceeded
    assert pause_ms(refused) > 0
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


def test_a_client_without_a_quota_is_not_slowed_by_those_of_others(wire: Wire) -> None:
    set_quotas(wire, {"client-id": "another"}, producer_byte_rate=1, request_percentage=0.001)
    answer = wire.ask(produce_request(wire, "t", batch(VALUE)), 13)
    assert pause_ms(answer) == 0


def _two_batches(wire: Wire) -> tuple[Any, int]:
    """The id of a topic with two batches of one size, and that size."""
    for _ in range(2):
        wire.ask(produce_request(wire, "t", batch(VALUE)), 13)
    return topic_id(wire, "t"), len(batch(VALUE))
