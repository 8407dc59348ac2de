"""The controller over the local store: what it creates, what it rejects and why, what a restart finds."""

import asyncio
from collections.abc import Mapping
from random import Random
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from catchment.cluster.controller import Controller
from catchment.cluster.local_store import LocalStore
from catchment.cluster.metadata import BrokerImage, Endpoint, MetadataImage
from catchment.cluster.new_topic import MAX_NEW_PARTITIONS, NewTopic
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError

DIRECTORY = "/data/catchment-metadata"
BROKER = BrokerImage(1, {"PLAINTEXT": Endpoint("localhost", 9092)}, rack="r1")


def reject_bad_settings(settings: Mapping[str, str]) -> None:
    if "no.such.setting" in settings:
        raise ApiError(ErrorCode.invalid_config, "Unknown topic config name: no.such.setting")


async def start_controller(disk: MemoryDisk, broker: BrokerImage = BROKER) -> Controller:
    randomness = Random(7)
    controller = Controller(
        LocalStore(disk, DIRECTORY),
        broker.id,
        validate_topic_settings=reject_bad_settings,
        new_uuid=lambda: UUID(int=randomness.getrandbits(128)),
    )
    await controller.start()
    await controller.register_broker(broker)
    return controller


async def rejection(controller: Controller, new: NewTopic) -> ApiError:
    with pytest.raises(ApiError) as rejected:
        await controller.create_topic(new)
    return rejected.value


async def test_a_created_topic_is_led_by_the_lone_broker_and_found_by_name_and_id() -> None:
    controller = await start_controller(MemoryDisk())
    topic = await controller.create_topic(NewTopic("t", 3, settings={"retention.ms": "1"}))
    assert controller.image.topics["t"] is controller.image.topics_by_id[topic.id] is topic
    assert [(p.partition, p.leader, p.leader_epoch, p.replicas, p.isr) for p in topic.partitions] == [
        (number, 1, 0, (1,), (1,)) for number in range(3)
    ]
    assert topic.settings == {"retention.ms": "1"}
    assert controller.image.partition("t", 2) is topic.partitions[2]
    assert controller.image.partition("t", 3) is controller.image.partition("u", 0) is None


async def test_a_restart_finds_everything_and_has_raised_every_leader_epoch_and_the_brokers_own() -> None:
    disk = MemoryDisk()
    before = await start_controller(disk)
    await before.create_topic(NewTopic("t", 2, settings={"a": "b"}))
    await before.create_topic(NewTopic("gone"))
    await before.delete_topic("gone")
    await before.create_partitions("t", 3)
    await before.change_topic_settings("t", lambda _: {"c": "d"})
    await before.change_broker_settings(None, lambda _: {"x": "1"})
    await before.change_broker_settings(1, lambda _: {"y": "2"})
    await before.change_broker_settings(1, lambda _: {"y": "3"})
    for restart in (1, 2):
        after = await start_controller(disk)
        assert after.image.cluster_id == before.image.cluster_id
        assert list(after.image.topics) == ["t"]
        assert after.image.topics["t"].id == before.image.topics["t"].id
        assert after.image.topics["t"].settings == {"c": "d"}
        assert [p.leader_epoch for p in after.image.topics["t"].partitions] == [restart] * 3
        assert [p.partition_epoch for p in after.image.topics["t"].partitions] == [restart] * 3
        assert after.image.default_broker_settings == {"x": "1"}
        assert after.image.broker_settings == {1: {"y": "3"}}
        assert after.image.brokers[1].epoch > before.image.brokers[1].epoch
        assert after.image.controller_id == 1


async def test_a_controller_that_was_replaced_changes_nothing() -> None:
    store = LocalStore(MemoryDisk(), DIRECTORY)
    old = Controller(store, 1)
    await old.start()
    await old.register_broker(BROKER)
    await store.delete("/controller")
    await Controller(store, 2).start()
    assert (await rejection(old, NewTopic("t"))).code is ErrorCode.not_controller
    assert await store.children("/topics") == []
    assert (await rejection(old, NewTopic("t"))).code is ErrorCode.not_controller, "the name must be free again"


async def test_subscribers_see_each_change_before_the_caller_gets_its_result() -> None:
    controller = await start_controller(MemoryDisk())
    seen: list[tuple[MetadataImage, MetadataImage]] = []
    controller.subscribe(lambda old, new: seen.append((old, new)))
    await controller.create_topic(NewTopic("t"))
    await controller.delete_topic("t")
    assert [(list(old.topics), list(new.topics)) for old, new in seen] == [([], ["t"]), (["t"], [])]
    assert [new.version - old.version for old, new in seen] == [1, 1]


async def test_validate_only_checks_and_creates_nothing() -> None:
    controller = await start_controller(MemoryDisk())
    image = controller.image
    assert len((await controller.create_topic(NewTopic("t", 4), validate_only=True)).partitions) == 4
    assert controller.image is image
    await controller.create_topic(NewTopic("t"))
    image = controller.image
    assert len((await controller.create_partitions("t", 9, validate_only=True)).partitions) == 9
    assert controller.image is image


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic(""), ErrorCode.invalid_topic_exception),
        (NewTopic("a/b"), ErrorCode.invalid_topic_exception),
        (NewTopic("t", 0), ErrorCode.invalid_partitions),
        (NewTopic("t", -2), ErrorCode.invalid_partitions),
        (NewTopic("t", MAX_NEW_PARTITIONS + 1), ErrorCode.policy_violation),
        (NewTopic("t", 1, 0), ErrorCode.invalid_replication_factor),
        (NewTopic("t", 1, 2), ErrorCode.invalid_replication_factor),
        (NewTopic("t", settings={"no.such.setting": "1"}), ErrorCode.invalid_config),
        (NewTopic("t", assignments={0: (2,)}), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", assignments={1: (1,)}), ErrorCode.invalid_replica_assignment),
    ],
)
async def test_an_invalid_topic_is_rejected_with_kafkas_error_code(new: NewTopic, code: ErrorCode) -> None:
    controller = await start_controller(MemoryDisk())
    rejected = await rejection(controller, new)
    assert rejected.code is code
    assert rejected.message
    assert not controller.image.topics


async def test_concurrent_creations_of_one_name_succeed_once() -> None:
    controller = await start_controller(MemoryDisk())
    names = ["a.b", "a.b", "a_b"]
    results = await asyncio.gather(*(controller.create_topic(NewTopic(name)) for name in names), return_exceptions=True)
    codes = [result.code for result in results if isinstance(result, ApiError)]
    assert codes == [ErrorCode.topic_already_exists, ErrorCode.invalid_topic_exception]
    assert list(controller.image.topics) == ["a.b"]
    await controller.delete_topic("a.b")
    await controller.create_topic(NewTopic("a_b"))


async def test_new_partitions_follow_the_existing_ones() -> None:
    controller = await start_controller(MemoryDisk())
    before = await controller.create_topic(NewTopic("t", 2))
    after = await controller.create_partitions("t", 4, [(1,), (1,)])
    assert after.partitions[:2] == before.partitions
    assert [p.partition for p in after.partitions] == [0, 1, 2, 3]
    assert controller.image.topics["t"] is controller.image.topics_by_id[before.id] is after


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (2, None, ErrorCode.invalid_partitions),
        (1, None, ErrorCode.invalid_partitions),
        (MAX_NEW_PARTITIONS + 3, None, ErrorCode.policy_violation),
        (4, [(1,)], ErrorCode.invalid_replica_assignment),
        (3, [(2,)], ErrorCode.invalid_replica_assignment),
    ],
)
async def test_a_count_that_is_not_larger_or_a_wrong_assignment_is_rejected(
    count: int, assignments: list[tuple[int, ...]] | None, code: ErrorCode
) -> None:
    controller = await start_controller(MemoryDisk())
    await controller.create_topic(NewTopic("t", 2))
    with pytest.raises(ApiError) as rejected:
        await controller.create_partitions("t", count, assignments)
    assert rejected.value.code is code
    assert len(controller.image.topics["t"].partitions) == 2


async def test_changes_of_a_missing_topic_are_rejected() -> None:
    controller = await start_controller(MemoryDisk())
    for change in (
        controller.delete_topic("t"),
        controller.create_partitions("t", 2),
        controller.change_topic_settings("t", lambda _: {}),
    ):
        with pytest.raises(ApiError) as rejected:
            await change
        assert rejected.value.code is ErrorCode.unknown_topic_or_partition


async def test_concurrent_changes_of_settings_build_on_each_other() -> None:
    controller = await start_controller(MemoryDisk())
    await controller.create_topic(NewTopic("t"))

    async def add(key: str) -> None:
        await controller.change_topic_settings("t", lambda current: {**current, key: "1"})

    await asyncio.gather(*(add(key) for key in "abc"))
    assert controller.image.topics["t"].settings == {"a": "1", "b": "1", "c": "1"}
    with pytest.raises(ApiError):
        await controller.change_topic_settings("t", lambda _: {"no.such.setting": "1"})


async def test_producer_ids_are_unique_across_restarts() -> None:
    disk = MemoryDisk()
    given: list[int] = []
    for _ in range(3):
        controller = await start_controller(disk)
        given += await asyncio.gather(*(controller.next_producer_id() for _ in range(1500)))
    assert len(set(given)) == len(given) == 4500
    assert await controller.allocate_producer_ids() == range(6000, 7000)


async def test_a_topic_found_on_disk_is_adopted_with_its_id_and_an_epoch_above_its_logs() -> None:
    disk = MemoryDisk()
    controller = await start_controller(disk)
    topic_id = UUID(int=99)
    topic = await controller.adopt_topic("found", topic_id, {0: 4, 2: -1})
    assert topic.id == topic_id
    assert [(p.leader, p.leader_epoch) for p in topic.partitions] == [(1, 5), (-1, 0), (1, 0)]
    assert (await controller.adopt_topic("nameless", None, {0: 0})).id in controller.image.topics_by_id
    with pytest.raises(ApiError):
        await controller.adopt_topic("found", topic_id, {0: 4})
    assert (await start_controller(disk)).image.topics["found"].partitions[1].leader == -1


async def test_the_last_deletion_is_remembered_until_the_next_one() -> None:
    disk = MemoryDisk()
    controller = await start_controller(disk)
    for name in ("a", "b"):
        await controller.create_topic(NewTopic(name))
    ids = {name: topic.id for name, topic in controller.image.topics.items()}
    await controller.delete_topic("a")
    assert (await start_controller(disk)).deleted_topic_ids == {ids["a"]}
    controller = await start_controller(disk)
    await controller.delete_topic("b")
    assert (await start_controller(disk)).deleted_topic_ids == {ids["b"]}


async def test_partitions_of_another_broker_have_no_leader_here() -> None:
    disk = MemoryDisk()
    await (await start_controller(disk)).create_topic(NewTopic("t"))
    moved = await start_controller(disk, BrokerImage(5, BROKER.endpoints))
    assert moved.image.topics["t"].partitions[0].leader == -1


async def test_a_cancelled_caller_leaves_image_and_store_equal() -> None:
    disk = MemoryDisk()
    controller = await start_controller(disk)
    hanging_up = asyncio.ensure_future(controller.create_topic(NewTopic("t")))
    await asyncio.sleep(0)
    hanging_up.cancel()
    await asyncio.wait([hanging_up])
    await controller.create_topic(NewTopic("u"))
    assert list(controller.image.topics) == (await controller_names(disk))


async def controller_names(disk: MemoryDisk) -> list[str]:
    return list((await start_controller(disk)).image.topics)


async def test_a_failed_write_leaves_the_image_unchanged_and_the_name_free() -> None:
    disk = MemoryDisk()
    controller = await start_controller(disk)
    disk.fill(0)
    assert (await rejection(controller, NewTopic("t"))).code is ErrorCode.kafka_storage_error
    assert not controller.image.topics
    disk.make_room()
    await controller.create_topic(NewTopic("t"))


async def test_a_broker_may_change_its_endpoints_without_a_new_epoch() -> None:
    controller = await start_controller(MemoryDisk())
    epoch = controller.image.brokers[1].epoch
    moved = await controller.register_broker(BrokerImage(1, {"TLS": Endpoint("elsewhere", 1)}))
    assert moved.epoch == epoch
    assert controller.image.brokers == {1: moved}


async def test_a_given_cluster_id_applies_to_an_empty_store_only() -> None:
    disk = MemoryDisk()
    first = Controller(LocalStore(disk, DIRECTORY), 1, cluster_id="given")
    await first.start()
    second = Controller(LocalStore(disk, DIRECTORY), 1, cluster_id="other")
    await second.start()
    assert first.image.cluster_id == second.image.cluster_id == "given"
    assert len((await start_controller(MemoryDisk())).image.cluster_id) == 22
