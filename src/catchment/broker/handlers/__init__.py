"""One module for each API, and the index of the APIs and features that ApiVersions reports.

Importing a message class takes up to a millisecond, and a broker has a hundred of them, so a handler is imported with the first
request for its API. The index answers ApiVersions before that. Each module still declares its versions itself: importing one
whose declaration differs from the index fails, and a test imports them all.
"""

from typing import Final, NamedTuple


class Claim(NamedTuple):
    module: str
    oldest: int
    newest: int
    advertised_oldest: int | None = None
    """The oldest version that ApiVersions reports, where it differs from the oldest one served."""


CLAIMS: Final[dict[int, Claim]] = {
    0: Claim("produce", 3, 13, advertised_oldest=0),
    1: Claim("fetch", 4, 18),
    2: Claim("list_offsets", 1, 11),
    3: Claim("metadata", 0, 13),
    8: Claim("offset_commit", 2, 10),
    9: Claim("offset_fetch", 1, 10),
    10: Claim("find_coordinator", 0, 6),
    11: Claim("join_group", 0, 9),
    12: Claim("heartbeat", 0, 4),
    13: Claim("leave_group", 0, 5),
    14: Claim("sync_group", 0, 5),
    15: Claim("describe_groups", 0, 6),
    16: Claim("list_groups", 0, 5),
    17: Claim("sasl_handshake", 0, 1),
    18: Claim("api_versions", 0, 4),
    19: Claim("create_topics", 2, 7),
    20: Claim("delete_topics", 1, 6),
    21: Claim("delete_records", 0, 2),
    22: Claim("init_producer_id", 0, 5),
    23: Claim("offset_for_leader_epoch", 2, 4),
    24: Claim("add_partitions_to_txn", 0, 5),
    25: Claim("add_offsets_to_txn", 0, 4),
    26: Claim("end_txn", 0, 5),
    27: Claim("write_txn_markers", 1, 2),
    28: Claim("txn_offset_commit", 0, 5),
    29: Claim("describe_acls", 1, 3),
    30: Claim("create_acls", 1, 3),
    31: Claim("delete_acls", 1, 3),
    32: Claim("describe_configs", 1, 4),
    33: Claim("alter_configs", 0, 2),
    34: Claim("alter_replica_log_dirs", 1, 2),
    35: Claim("describe_log_dirs", 1, 5),
    36: Claim("sasl_authenticate", 0, 2),
    37: Claim("create_partitions", 0, 3),
    38: Claim("create_delegation_token", 1, 3),
    39: Claim("renew_delegation_token", 1, 2),
    40: Claim("expire_delegation_token", 1, 2),
    41: Claim("describe_delegation_token", 1, 3),
    42: Claim("delete_groups", 0, 2),
    43: Claim("elect_leaders", 0, 2),
    44: Claim("incremental_alter_configs", 0, 1),
    45: Claim("alter_partition_reassignments", 0, 1),
    46: Claim("list_partition_reassignments", 0, 0),
    47: Claim("offset_delete", 0, 0),
    48: Claim("describe_client_quotas", 0, 1),
    49: Claim("alter_client_quotas", 0, 1),
    50: Claim("describe_user_scram_credentials", 0, 0),
    51: Claim("alter_user_scram_credentials", 0, 0),
    55: Claim("describe_quorum", 0, 2),
    57: Claim("update_features", 0, 2),
    60: Claim("describe_cluster", 0, 2),
    64: Claim("unregister_broker", 0, 0),
    65: Claim("describe_transactions", 0, 0),
    66: Claim("list_transactions", 0, 2),
    61: Claim("describe_producers", 0, 0),
    68: Claim("consumer_group_heartbeat", 0, 1),
    69: Claim("consumer_group_describe", 0, 1),
    74: Claim("list_config_resources", 0, 1),
    75: Claim("describe_topic_partitions", 0, 0),
    76: Claim("share_group_heartbeat", 1, 1),
    77: Claim("share_group_describe", 1, 1),
    78: Claim("share_fetch", 1, 2),
    79: Claim("share_acknowledge", 1, 2),
    83: Claim("initialize_share_group_state", 0, 0),
    84: Claim("read_share_group_state", 0, 0),
    85: Claim("write_share_group_state", 0, 1),
    86: Claim("delete_share_group_state", 0, 0),
    87: Claim("read_share_group_state_summary", 0, 1),
    90: Claim("describe_share_group_offsets", 0, 1),
    91: Claim("alter_share_group_offsets", 0, 0),
    92: Claim("delete_share_group_offsets", 0, 0),
}


class Feature(NamedTuple):
    lowest: int
    highest: int
    """The highest supported level, which is also the finalized one."""


FEATURES: Final[dict[str, Feature]] = {
    "group.version": Feature(0, 1),
    # Kafka's 4.3-IV0. Eligible leader replicas and streams groups are features of their own, which Catchment does not have.
    "metadata.version": Feature(7, 30),
    "share.version": Feature(0, 1),
    "transaction.version": Feature(0, 2),
}
"""Kafka's features that this broker has (KIP-584): ApiVersions reports them, UpdateFeatures checks against them."""
