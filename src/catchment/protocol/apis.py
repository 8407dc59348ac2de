"""The table of Kafka's APIs, and their message classes, which are imported when they are first used.

kio has a module for every message at every version. Importing them all takes over half a second, and even its index a tenth
of our startup. So the table is written here (a test compares it with kio's index) and classes are found by kio's naming
convention.

The versions in the table are those of kio. Handlers declare what the broker serves, which may be less.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from kio.static.constants import EntityType

from catchment.protocol.errors import MalformedRequest

API_VERSIONS_KEY: Final = 18


class Api(NamedTuple):
    """One API: its module in kio, the versions that kio has, and the first with compact types and tagged fields."""

    module: str
    oldest: int
    newest: int
    first_flexible: int | None

    @property
    def name(self) -> str:
        """The name as Kafka spells it, such as `ApiVersions`."""
        return "".join(word.capitalize() for word in self.module.split("_"))


APIS: Final[dict[int, Api]] = {
    0: Api("produce", 3, 13, 9),
    1: Api("fetch", 4, 18, 12),
    2: Api("list_offsets", 1, 11, 6),
    3: Api("metadata", 0, 13, 9),
    8: Api("offset_commit", 2, 10, 8),
    9: Api("offset_fetch", 1, 10, 6),
    10: Api("find_coordinator", 0, 6, 3),
    11: Api("join_group", 0, 9, 6),
    12: Api("heartbeat", 0, 4, 4),
    13: Api("leave_group", 0, 5, 4),
    14: Api("sync_group", 0, 5, 4),
    15: Api("describe_groups", 0, 6, 5),
    16: Api("list_groups", 0, 5, 3),
    17: Api("sasl_handshake", 0, 1, None),
    18: Api("api_versions", 0, 4, 3),
    19: Api("create_topics", 2, 7, 5),
    20: Api("delete_topics", 1, 6, 4),
    21: Api("delete_records", 0, 2, 2),
    22: Api("init_producer_id", 0, 6, 2),
    23: Api("offset_for_leader_epoch", 2, 4, 4),
    24: Api("add_partitions_to_txn", 0, 5, 3),
    25: Api("add_offsets_to_txn", 0, 4, 3),
    26: Api("end_txn", 0, 5, 3),
    27: Api("write_txn_markers", 1, 2, 1),
    28: Api("txn_offset_commit", 0, 5, 3),
    29: Api("describe_acls", 1, 3, 2),
    30: Api("create_acls", 1, 3, 2),
    31: Api("delete_acls", 1, 3, 2),
    32: Api("describe_configs", 1, 4, 4),
    33: Api("alter_configs", 0, 2, 2),
    34: Api("alter_replica_log_dirs", 1, 2, 2),
    35: Api("describe_log_dirs", 1, 5, 2),
    36: Api("sasl_authenticate", 0, 2, 2),
    37: Api("create_partitions", 0, 3, 2),
    38: Api("create_delegation_token", 1, 3, 2),
    39: Api("renew_delegation_token", 1, 2, 2),
    40: Api("expire_delegation_token", 1, 2, 2),
    41: Api("describe_delegation_token", 1, 3, 2),
    42: Api("delete_groups", 0, 2, 2),
    43: Api("elect_leaders", 0, 2, 2),
    44: Api("incremental_alter_configs", 0, 1, 1),
    45: Api("alter_partition_reassignments", 0, 1, 0),
    46: Api("list_partition_reassignments", 0, 0, 0),
    47: Api("offset_delete", 0, 0, None),
    48: Api("describe_client_quotas", 0, 1, 1),
    49: Api("alter_client_quotas", 0, 1, 1),
    50: Api("describe_user_scram_credentials", 0, 0, 0),
    51: Api("alter_user_scram_credentials", 0, 0, 0),
    52: Api("vote", 0, 2, 0),
    53: Api("begin_quorum_epoch", 0, 1, 1),
    54: Api("end_quorum_epoch", 0, 1, 1),
    55: Api("describe_quorum", 0, 2, 0),
    56: Api("alter_partition", 2, 3, 2),
    57: Api("update_features", 0, 2, 0),
    58: Api("envelope", 0, 0, 0),
    59: Api("fetch_snapshot", 0, 1, 0),
    60: Api("describe_cluster", 0, 2, 0),
    61: Api("describe_producers", 0, 0, 0),
    62: Api("broker_registration", 0, 4, 0),
    63: Api("broker_heartbeat", 0, 2, 0),
    64: Api("unregister_broker", 0, 0, 0),
    65: Api("describe_transactions", 0, 0, 0),
    66: Api("list_transactions", 0, 2, 0),
    67: Api("allocate_producer_ids", 0, 0, 0),
    68: Api("consumer_group_heartbeat", 0, 1, 0),
    69: Api("consumer_group_describe", 0, 1, 0),
    70: Api("controller_registration", 0, 0, 0),
    71: Api("get_telemetry_subscriptions", 0, 0, 0),
    72: Api("push_telemetry", 0, 0, 0),
    73: Api("assign_replicas_to_dirs", 0, 0, 0),
    74: Api("list_config_resources", 0, 1, 0),
    75: Api("describe_topic_partitions", 0, 0, 0),
    76: Api("share_group_heartbeat", 1, 1, 1),
    77: Api("share_group_describe", 1, 1, 1),
    78: Api("share_fetch", 1, 2, 1),
    79: Api("share_acknowledge", 1, 2, 1),
    80: Api("add_raft_voter", 0, 1, 0),
    81: Api("remove_raft_voter", 0, 0, 0),
    82: Api("update_raft_voter", 0, 0, 0),
    83: Api("initialize_share_group_state", 0, 0, 0),
    84: Api("read_share_group_state", 0, 0, 0),
    85: Api("write_share_group_state", 0, 1, 0),
    86: Api("delete_share_group_state", 0, 0, 0),
    87: Api("read_share_group_state_summary", 0, 1, 0),
    88: Api("streams_group_heartbeat", 0, 0, 0),
    89: Api("streams_group_describe", 0, 0, 0),
    90: Api("describe_share_group_offsets", 0, 1, 0),
    91: Api("alter_share_group_offsets", 0, 0, 0),
    92: Api("delete_share_group_offsets", 0, 0, 0),
}

# kio's class for this response cannot hold a transaction that has not started (Kafka writes -1).
_REPLACED: Final[dict[tuple[int, EntityType], str]] = {
    (65, EntityType.response): "catchment.protocol.adapters.describe_transactions",
}


def newest(api_key: int) -> int:
    """The newest version of an API, whose classes handlers use."""
    return APIS[api_key].newest


def knows(api_key: int, version: int) -> bool:
    """Whether there are message classes for this API and version."""
    api = APIS.get(api_key)
    return api is not None and api.oldest <= version <= api.newest


def is_flexible(api_key: int, version: int) -> bool:
    """Whether this version uses compact types and tagged fields (KIP-482), and so the newer headers."""
    first_flexible = APIS[api_key].first_flexible
    return first_flexible is not None and version >= first_flexible


@cache
def request_class(api_key: int, version: int) -> Any:
    """The kio dataclass of one request at one version."""
    return _load(api_key, version, EntityType.request)


@cache
def response_class(api_key: int, version: int) -> Any:
    """The kio dataclass of one response at one version."""
    return _load(api_key, version, EntityType.response)


def _load(api_key: int, version: int, kind: EntityType) -> Any:
    if not knows(api_key, version):
        raise MalformedRequest(f"there are no messages for API {api_key} version {version}")
    api = APIS[api_key]
    module = _REPLACED.get((api_key, kind)) or f"kio.schema.{api.module}.v{version}.{kind.name}"
    return getattr(import_module(module), f"{api.name}{kind.name.capitalize()}")
