"""Reading the whole cluster out of the coordination store, as a controller does when it takes office."""

from catchment.cluster import client_quotas, group_settings, nodes
from catchment.cluster.metadata import MetadataImage, TopicImage
from catchment.ports.coordination import Coordination, NoNode


async def load_image(store: Coordination) -> MetadataImage:
    """The image that the store describes; an empty one for a store that nobody has used yet."""
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
        group_settings=await group_settings.load(store),
        client_quotas=await client_quotas.load(store),
    )


async def missing_roots(store: Coordination) -> list[str]:
    """The roots that a store lacks because an older release made it."""
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
