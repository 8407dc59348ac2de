"""Differences between versions of an API other than added fields: one module an API, named as in kio, loaded when needed.

A module may have `lift_request` and `lift_response`, which convert a message of an older version to the newest class, and
`lower_request` and `lower_response`, which convert the newest class to what kio's writer of an older version accepts.
Everything else is copied field by field (`conversion`).

Kafka's newest Produce, Fetch, OffsetCommit and OffsetFetch have only topic ids. Their modules here have topic classes that
derive from kio's newest ones and have the name as well; lifted messages always use those.
"""

from __future__ import annotations

from typing import Final

ADAPTED: Final = frozenset(
    {
        "add_partitions_to_txn",
        "api_versions",
        "delete_topics",
        "fetch",
        "find_coordinator",
        "join_group",
        "leave_group",
        "list_config_resources",
        "metadata",
        "offset_commit",
        "offset_fetch",
        "produce",
        "update_features",
    }
)
"""The APIs that have a module here. `describe_transactions` is not one: it replaces kio's class."""
