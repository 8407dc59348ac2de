"""The settings of groups in the coordination store: a node for each group that has any.

Groups have names that no path could hold, so a node's name is percent-encoded, and begins with a letter of ours: `.` and
`..` may be names of groups, but of nothing in a path.
"""

from collections.abc import Mapping
from urllib.parse import quote

from catchment.cluster import nodes
from catchment.ports.coordination import Coordination, Create, Delete, NoNode, Operation, Set


def changes(group_id: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[Operation]:
    """What turns the group's node from the old settings to the new."""
    path = f"{nodes.GROUP_CONFIGS}/g{quote(group_id, safe='')}"
    if old == new:
        return []
    if not new:
        return [Delete(path)]
    data = nodes.encode({"group": group_id, "settings": dict(new)})
    return [Set(path, data) if old else Create(path, data)]


async def load(store: Coordination) -> dict[str, Mapping[str, str]]:
    settings: dict[str, Mapping[str, str]] = {}
    try:
        names = await store.children(nodes.GROUP_CONFIGS)
    except NoNode:
        # The store was made by a release in which groups had no settings.
        return settings
    for name in names:
        document = nodes.decode((await store.get(f"{nodes.GROUP_CONFIGS}/{name}")).data)
        settings[document["group"]] = document["settings"]
    return settings
