"""Where an API's versions differ in more than added fields: one module an API, named as in kio, loaded when needed.

A module may have `lift_request` and `lift_response`, which make the newest message of one at an older version, and
`lower_request` and `lower_response`, which make of the newest message what kio's writer for an older version takes.
Everything else is copied field by field (`conversion`).

Kafka's newest Produce, Fetch, OffsetCommit and OffsetFetch name topics by id alone. Their modules here have topic
classes that derive from kio's newest ones and hold the name as well: a lifted message always has those.
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
