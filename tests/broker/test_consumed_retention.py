"""`catchment.retention.consumed.by`: records are deleted once every group that counts has committed past them, and not before."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import wait_until

from catchment.coordination.groups.queries import EVERY_GROUP, floors
from catchment.testing.embedded import Broker

RECORDS = 10
PARTITIONS = 2
DEADLINE_S = 150
POSITIONS = st.dictionaries(st.integers(0, PARTITIONS - 1), st.integers(0, 100))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"log.retention.check.interval.ms": 20}) as running:
        yield running


def fill(broker: Broker, topic: str, consumed_by: str) -> None:
    broker.create_topic(topic, PARTITIONS, settings={"catchment.retention.consumed.by": consumed_by})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition in range(PARTITIONS):
        for number in range(RECORDS):
            producer.produce(topic, str(number), partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def client(broker: Broker, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "enable.auto.commit": False})


def commit(broker: Broker, group: str, *positions: TopicPartition) -> None:
    consumer = client(broker, group)
    consumer.commit(offsets=list(positions), asynchronous=False)
    consumer.close()


def starts(broker: Broker, topic: str) -> list[int]:
    consumer = client(broker, "looks")
    found = [
        consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S)[0]
        for partition in range(PARTITIONS)
    ]
    consumer.close()
    return found


def wait_for_starts(broker: Broker, topic: str, expected: list[int]) -> None:
    wait_until(lambda: starts(broker, topic) == expected, lambda: f"they are {starts(broker, topic)}, not {expected}")


def test_records_are_deleted_when_every_group_has_committed_past_them(broker: Broker) -> None:
    fill(broker, "every", EVERY_GROUP)
    commit(broker, "fast", TopicPartition("every", 0, 8), TopicPartition("every", 1, 8))
    wait_for_starts(broker, "every", [8, 8])
    commit(broker, "slow", TopicPartition("every", 0, 2))
    commit(broker, "fast", TopicPartition("every", 0, 9), TopicPartition("every", 1, 10))
    commit(broker, "slow", TopicPartition("every", 0, 9))
    # A round that moves the first partition saw that `slow` has nothing of the second.
    wait_for_starts(broker, "every", [9, 8])
    commit(broker, "slow", TopicPartition("every", 1, 10))
    wait_for_starts(broker, "every", [9, 10])


def test_named_groups_alone_decide_and_all_of_them_must_have_committed(broker: Broker) -> None:
    fill(broker, "named", "billing, audit")
    commit(broker, "billing", TopicPartition("named", 0, 5), TopicPartition("named", 1, 5))
    commit(broker, "audit", TopicPartition("named", 0, 3))
    wait_for_starts(broker, "named", [3, 0])


def test_deleted_records_stay_deleted_after_a_crash() -> None:
    with Broker(settings={"log.retention.check.interval.ms": 20}) as broker:
        fill(broker, "once", EVERY_GROUP)
        commit(broker, "reader", TopicPartition("once", 0, 4), TopicPartition("once", 1, 6))
        wait_for_starts(broker, "once", [4, 6])
        broker.kill()
        broker.start()
        wait_for_starts(broker, "once", [4, 6])


def test_a_commit_beyond_the_end_deletes_only_existing_records(broker: Broker) -> None:
    fill(broker, "beyond", EVERY_GROUP)
    commit(broker, "eager", TopicPartition("beyond", 0, 1_000), TopicPartition("beyond", 1, 1))
    wait_for_starts(broker, "beyond", [RECORDS, 1])


@given(groups=st.dictionaries(st.sampled_from("abc"), POSITIONS), named=st.lists(st.sampled_from("abc*")).map(tuple))
def test_no_record_is_deleted_that_a_group_has_not_committed_past(
    groups: dict[str, dict[int, int]], named: tuple[str, ...]
) -> None:
    found = floors(groups, named, PARTITIONS)
    counting = groups.keys() if EVERY_GROUP in named else set(named)
    for partition, floor in enumerate(found):
        for group in counting:
            assert floor <= groups.get(group, {}).get(partition, 0)
        if not counting:
            assert floor == 0


def test_a_share_group_counts_with_what_it_has_acknowledged(broker: Broker) -> None:
    fill(broker, "queue", EVERY_GROUP)
    consumer = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "workers",
            "share.acknowledgement.mode": "explicit",
        }
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, "workers", incremental_configs=[earliest])
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
    consumer.subscribe(["queue"])
    left = {(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)}
    deadline_s = time.monotonic() + DEADLINE_S
    while left:
        assert time.monotonic() < deadline_s, f"the share group does not hand out {sorted(left)}"
        for message in consumer.poll(0.2):
            place = (message.partition(), message.offset())
            # The last record is not done: what lies before it may go, and it may not.
            is_done = place != (0, RECORDS - 1)
            consumer.acknowledge(message, AcknowledgeType.ACCEPT if is_done else AcknowledgeType.RELEASE)
            left.discard(place)
        consumer.commit_sync(DEADLINE_S)
    wait_for_starts(broker, "queue", [RECORDS - 1, RECORDS])
    consumer.close()
