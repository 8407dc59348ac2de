"""The metadata image in the coordination store: how a new controller loads it, and the operations that change it.

Most facts have one node each (`nodes`). Groups and quota entities are chosen by clients, so that no path could hold their names:
the names of their nodes are percent-encoded.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote
from uuid import UUID

from catchment.cluster import nodes
from catchment.cluster.metadata import ClientQuotas, MetadataImage, PartitionImage, QuotaEntity, TopicImage
from catchment.ports.coordination import Coordination, Create, Delete, NoNode, Operation, Set


async def load_image(store: Coordination) -> MetadataImage:
    """The image that the store describes; an empty one for a store that was never used."""
    try:
        cluster_id = nodes.decode((await store.get(nodes.CLUSTER)).data)["id"]
    except NoNode:
        return MetadataImage()
    topics = [await _load_topic(store, name) for name in await store.children(nodes.TOPICS)]
    default_settings: dict[str, str] = {}
    broker_settings: dict[int, dict[str, str]] = {}
    for name in await store.children(nodes.BROKER_CONFIGS):
        settings = nodes.decode((await store.get(f"{nodes.BROKER_CONFIGS}/{name}")).data)
        if f"{nodes.BROKER_CONFIGS}/{name}" == nodes.DEFAULT_BROKER_CONFIG:
            default_settings = settings
        else:
            broker_settings[int(name)] = settings
    brokers = {}
    for name in await store.children(nodes.BROKER_IDS):
        node = await store.get(nodes.broker(int(name)))
        brokers[int(name)] = nodes.decode_broker(int(name), node.data, node.created_by)
    return MetadataImage(
        cluster_id=cluster_id,
        brokers=brokers,
        topics={topic.name: topic for topic in topics},
        topics_by_id={topic.id: topic for topic in topics},
        default_broker_settings=default_settings,
        broker_settings=broker_settings,
        group_settings=await _load_group_settings(store),
        client_quotas=await _load_client_quotas(store),
    )


async def missing_roots(store: Coordination) -> list[str]:
    """The roots that a store lacks because an older release created it."""
    missing = []
    for path in nodes.ROOTS:
        try:
            await store.get(path)
        except NoNode:
            missing.append(path)
    return missing


async def _load_topic(store: Coordination, name: str) -> TopicImage:
    topic_id, assignments = nodes.decode_topic((await store.get(nodes.topic(name))).data)
    partitions = []
    for number, replicas in enumerate(assignments):
        node = await store.get(nodes.partition(topic_id, number))
        partitions.append(nodes.decode_partition(number, replicas, node.data, node.version))
    settings = nodes.decode((await store.get(nodes.topic_config(name))).data)
    return TopicImage(name, topic_id, tuple(partitions), settings)


async def _load_group_settings(store: Coordination) -> dict[str, Mapping[str, str]]:
    documents = await _documents(store, nodes.GROUP_CONFIGS)
    return {document["group"]: document["settings"] for document in documents}


async def _load_client_quotas(store: Coordination) -> ClientQuotas:
    documents = await _documents(store, nodes.QUOTA_CONFIGS)
    return {QuotaEntity(**document["entity"]): document["quotas"] for document in documents}


async def _documents(store: Coordination, parent: str) -> list[dict[str, Any]]:
    """The documents below a node, or none: a release that had no such settings may have created the store."""
    try:
        names = await store.children(parent)
    except NoNode:
        return []
    return [nodes.decode((await store.get(f"{parent}/{name}")).data) for name in names]


def topic_creation(topic: TopicImage, controller_epoch: int) -> list[Operation]:
    replicas = [state.replicas for state in topic.partitions]
    return [
        Create(nodes.topic(topic.name), nodes.encode_topic(topic.id, replicas)),
        Create(nodes.topic_config(topic.name), nodes.encode(topic.settings)),
        Create(nodes.topic_partitions(topic.id), b"{}"),
        *_partition_creations(topic.id, topic.partitions, controller_epoch),
    ]


def topic_growth(grown: TopicImage, new: Sequence[PartitionImage], controller_epoch: int) -> list[Operation]:
    """Add `new` partitions, which `grown` already has."""
    replicas = [state.replicas for state in grown.partitions]
    return [
        Set(nodes.topic(grown.name), nodes.encode_topic(grown.id, replicas)),
        *_partition_creations(grown.id, new, controller_epoch),
    ]


def topic_deletion(topic: TopicImage) -> list[Operation]:
    """Children first."""
    return [
        *(Delete(nodes.partition(topic.id, state.partition)) for state in topic.partitions),
        Delete(nodes.topic_partitions(topic.id)),
        Delete(nodes.topic_config(topic.name)),
        Delete(nodes.topic(topic.name)),
    ]


def _partition_creations(
    topic_id: UUID, partitions: Sequence[PartitionImage], controller_epoch: int
) -> list[Operation]:
    return [
        Create(nodes.partition(topic_id, state.partition), nodes.encode_partition(state, controller_epoch))
        for state in partitions
    ]


def group_settings_changes(group_id: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[Operation]:
    """Turn the group's settings from `old` to `new`; a group without settings has no node.

    The name of the node begins with a letter of ours: `.` and `..` may be names of groups, but of nothing in a path.
    """
    path = f"{nodes.GROUP_CONFIGS}/g{quote(group_id, safe='')}"
    if old == new:
        return []
    if not new:
        return [Delete(path)]
    data = nodes.encode({"group": group_id, "settings": dict(new)})
    return [Set(path, data) if old else Create(path, data)]


def client_quota_changes(old: ClientQuotas, new: ClientQuotas) -> list[Operation]:
    """Turn the quotas from `old` to `new`. Each entity has a node of its own, since there may be thousands of them."""
    operations: list[Operation] = [Delete(_quota_node(entity)) for entity in old if entity not in new]
    for entity, quotas in new.items():
        data = nodes.encode({"entity": entity._asdict(), "quotas": quotas})
        if entity not in old:
            operations.append(Create(_quota_node(entity), data))
        elif quotas != old[entity]:
            operations.append(Set(_quota_node(entity), data))
    return operations


def _quota_node(entity: QuotaEntity) -> str:
    name = "&".join(f"{part}={quote(value, safe='')}" for part, value in entity._asdict().items() if value is not None)
    return f"{nodes.QUOTA_CONFIGS}/{name}"
