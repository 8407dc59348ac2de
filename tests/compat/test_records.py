"""Each client's records of every size, with every kind of acknowledgement, and its timestamps."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.compat.clients.client import EARLIEST, LATEST, Client, Record
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.clients.librdkafka import Librdkafka

from catchment.testing.embedded import Broker

_SIZES = (1, 1000, 1_000_000, 10 * 1024 * 1024)
_FIRST_MS = 1_700_000_000_000
# These times are long past, and retention would take such records away.
_KEPT = {"retention.ms": -1}
# The latest is not the last, so that a lookup must not stop at the first record it sees.
_TIMESTAMPS_MS = (_FIRST_MS, _FIRST_MS + 1000, _FIRST_MS + 3000, _FIRST_MS + 2000)


def _value(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


def test_records_of_one_byte_to_ten_megabytes_arrive_whole(each_client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic(settings={"max.message.bytes": 16 * 1024 * 1024})
    records = [Record(_value(size)) for size in _SIZES]
    each_client.write(topic, records)
    assert [stored.record == record for stored, record in zip(each_client.read(topic, 4), records, strict=True)] == [
        True
    ] * len(records)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_records_arrive_with_fewer_acknowledgements(
    each_client: Client, make_topic: Callable[..., str], acks: str
) -> None:
    topic = make_topic()
    records = [Record(b"value %d" % number, b"key") for number in range(5)]
    each_client.write(topic, records, acks=acks)
    assert [stored.record for stored in each_client.read(topic, 5)] == records


def test_idempotent_producers_follow_one_another(each_client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    records = [Record(b"value %d" % number, b"key") for number in range(10)]
    each_client.write(topic, records[:5], idempotent=True)
    each_client.write(topic, records[5:], idempotent=True)
    assert [stored.record for stored in each_client.read(topic, 10)] == records


def test_a_consumer_starts_at_a_given_offset(
    each_client: Client, broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    records = [Record(b"%d" % number) for number in range(20)]
    Librdkafka(broker.bootstrap_servers).write(topic, records)
    assert [stored.record for stored in each_client.read(topic, 3, first_offset=17)] == records[17:]


def test_a_producers_timestamps_are_kept(each_client: Client, broker: Broker, make_topic: Callable[..., str]) -> None:
    topic = make_topic(settings=_KEPT)
    writer = each_client if each_client.sets_timestamps else Librdkafka(broker.bootstrap_servers)
    writer.write(topic, [Record(b"value")] * 4, timestamps_ms=_TIMESTAMPS_MS)
    stored = each_client.read(topic, 4)
    assert tuple(each.timestamp_ms for each in stored) == _TIMESTAMPS_MS
    assert not any(each.is_log_append_time for each in stored)


def test_the_broker_stamps_records_where_the_topic_is_configured_so(
    each_client: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(settings={"message.timestamp.type": "LogAppendTime"})
    began_ms = time.time_ns() // 1_000_000
    timestamps_ms = _TIMESTAMPS_MS if each_client.sets_timestamps else None
    each_client.write(topic, [Record(b"value")] * 4, timestamps_ms=timestamps_ms)
    ended_ms = time.time_ns() // 1_000_000
    stored = each_client.read(topic, 4)
    assert all(began_ms <= each.timestamp_ms <= ended_ms and each.is_log_append_time for each in stored)


@pytest.fixture(scope="module")
def timed_topic(broker: Broker, make_topic: Callable[..., str]) -> str:
    topic = make_topic(settings=_KEPT)
    Librdkafka(broker.bootstrap_servers).write(topic, [Record(b"value")] * 4, timestamps_ms=_TIMESTAMPS_MS)
    return topic


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"),
    [
        (EARLIEST, 0),
        (LATEST, 4),
        (_FIRST_MS - 1000, 0),
        (_FIRST_MS + 1000, 1),
        (_FIRST_MS + 1001, 2),
        (_FIRST_MS + 3000, 2),
    ],
)
def test_an_offset_is_found_by_time(each_client: Client, timed_topic: str, timestamp_ms: int, offset: int) -> None:
    assert each_client.offset_at(timed_topic, timestamp_ms) == offset


def test_a_time_after_the_last_record_has_no_offset(each_client: Client, timed_topic: str) -> None:
    assert each_client.offset_at(timed_topic, _FIRST_MS + 3001) in (None, 4)


@pytest.mark.parametrize("age", [(0, 11), (1, 0), (2, 0), (2, 4), (3, 0)])
def test_a_client_that_speaks_old_versions_is_served(
    broker: Broker, make_topic: Callable[..., str], age: tuple[int, int]
) -> None:
    topic = make_topic(settings=_KEPT)
    client = KafkaPython(broker.bootstrap_servers, api_version=age)
    records = [Record(b"value %d" % number, b"key", (("name", b"value"),)) for number in range(5)]
    client.write(topic, records, codec="gzip", timestamps_ms=range(_FIRST_MS, _FIRST_MS + 5))
    assert [stored.record for stored in client.read(topic, 5)] == records
    assert client.offset_at(topic, _FIRST_MS + 3) == 3
    assert client.offset_at(topic, LATEST) == 5
