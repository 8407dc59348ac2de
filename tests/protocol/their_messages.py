"""kafka-python's messages, an independent implementation of Kafka's schemas.

Importing them warns of a deprecated call in kafka-python itself, which these tests ignore.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.consumer import (
        JoinGroupResponse,
        LeaveGroupRequest,
        OffsetCommitRequest,
        OffsetFetchResponse,
    )
    from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest

__all__ = (
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "MetadataRequest",
    "OffsetCommitRequest",
    "OffsetFetchResponse",
)
