"""Client quotas in the controller's store: changed together, loaded again, and added to a store that had none."""

from catchment.cluster import nodes
from catchment.cluster.controller import Controller
from catchment.cluster.local_store import LocalStore
from catchment.cluster.metadata import MetadataImage, QuotaEntity
from catchment.ports.memory_disk import MemoryDisk

DIRECTORY = "/data/catchment-metadata"
ANN = QuotaEntity(user="ann")
ALL_CLIENTS_OF_ANN = QuotaEntity(user="ann", client_id="")


async def start(disk: MemoryDisk) -> tuple[LocalStore, Controller]:
    store = LocalStore(disk, DIRECTORY)
    controller = Controller(store, 1)
    await controller.start()
    return store, controller


async def test_a_change_of_several_entities_is_loaded_by_the_next_controller() -> None:
    disk = MemoryDisk()
    store, controller = await start(disk)
    await controller.change_client_quotas(lambda _: {ANN: {"a": 1.0}, ALL_CLIENTS_OF_ANN: {"b": 2.5}})
    await controller.change_client_quotas(lambda quotas: {**quotas, ANN: {"a": 3.0}})
    assert controller.image.client_quotas == {ANN: {"a": 3.0}, ALL_CLIENTS_OF_ANN: {"b": 2.5}}
    await store.close()
    store, again = await start(disk)
    assert again.image.client_quotas == controller.image.client_quotas
    await again.change_client_quotas(lambda _: {})
    assert await store.children(nodes.QUOTA_CONFIGS) == []
    assert again.image.client_quotas == {}


async def test_subscribers_are_called_on_changes_alone() -> None:
    _, controller = await start(MemoryDisk())
    seen: list[MetadataImage] = []
    controller.subscribe(lambda old, new: seen.append(new))
    await controller.change_client_quotas(lambda _: {ANN: {"a": 1.0}})
    await controller.change_client_quotas(lambda quotas: dict(quotas))
    assert [image.client_quotas for image in seen] == [{ANN: {"a": 1.0}}]


async def test_a_store_of_a_release_without_quotas_accepts_them() -> None:
    disk = MemoryDisk()
    store, _ = await start(disk)
    await store.delete(nodes.QUOTA_CONFIGS)
    await store.close()
    _, controller = await start(disk)
    assert controller.image.client_quotas == {}
    await controller.change_client_quotas(lambda _: {ANN: {"a": 1.0}})
    assert controller.image.client_quotas == {ANN: {"a": 1.0}}
