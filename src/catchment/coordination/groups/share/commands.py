"""The ShareGroupHeartbeat request and response, and the settings of share groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.coordination.groups.modern import NO_PARTITIONS, PartitionsByTopic


class HeartbeatRequest(NamedTuple):
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    topics: tuple[str, ...] | None
    """None if the subscription has not changed since the last heartbeat."""
    client_id: str
    client_host: str


class HeartbeatAnswer(NamedTuple):
    error: ErrorCode
    message: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: PartitionsByTopic | None = None
    """None if it has not changed."""
    to_initialize: PartitionsByTopic = NO_PARTITIONS
    """Partitions whose share state has to be initialized before they can be assigned."""
    state_epoch: int = 0
    """The epoch to initialize them with."""


class ShareGroupLimits(NamedTuple):
    """The settings of share groups. Some differ from group to group."""

    max_size: int = 200
    initialize_retry_ms: int = 30_000
    session_timeout_ms: Callable[[str], int] = lambda _: 45_000
    heartbeat_interval_ms: Callable[[str], int] = lambda _: 5_000


DEFAULT_SHARE_LIMITS: Final = ShareGroupLimits()
HeartbeatReply = Callable[[HeartbeatAnswer], None]
