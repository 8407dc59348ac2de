"""Client quotas in the coordination store.

Each entity has a node of its own, since there may be thousands of them. A node's name is its entity, percent-encoded: users
and clients choose names that no path could hold.
"""

from collections.abc import Mapping
from urllib.parse import quote

from catchment.cluster import nodes
from catchment.cluster.metadata import ClientQuotas, QuotaEntity
from catchment.ports.coordination import Coordination, Create, Delete, NoNode, Operation, Set


def changes(old: ClientQuotas, new: ClientQuotas) -> list[Operation]:
    """What turns the store's nodes from the old quotas to the new."""
    operations: list[Operation] = [Delete(_node(entity)) for entity in old if entity not in new]
    for entity, quotas in new.items():
        if entity not in old:
            operations.append(Create(_node(entity), _encode(entity, quotas)))
        elif quotas != old[entity]:
            operations.append(Set(_node(entity), _encode(entity, quotas)))
    return operations


async def load(store: Coordination) -> ClientQuotas:
    quotas: dict[QuotaEntity, Mapping[str, float]] = {}
    try:
        names = await store.children(nodes.QUOTA_CONFIGS)
    except NoNode:
        # The store was made by a release that had no quotas.
        return quotas
    for name in names:
        document = nodes.decode((await store.get(f"{nodes.QUOTA_CONFIGS}/{name}")).data)
        quotas[QuotaEntity(**document["entity"])] = document["quotas"]
    return quotas


def _node(entity: QuotaEntity) -> str:
    name = "&".join(f"{part}={quote(value, safe='')}" for part, value in entity._asdict().items() if value is not None)
    return f"{nodes.QUOTA_CONFIGS}/{name}"


def _encode(entity: QuotaEntity, quotas: Mapping[str, float]) -> bytes:
    return nodes.encode({"entity": entity._asdict(), "quotas": quotas})
