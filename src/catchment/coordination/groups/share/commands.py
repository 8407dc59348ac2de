"""What members of share groups ask of their coordinator and what it answers, and the settings that share groups obey."""

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
    """None where the subscription has not changed since the last heartbeat."""
    client_id: str
    client_host: str


class HeartbeatAnswer(NamedTuple):
    error: ErrorCode
    message: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: PartitionsByTopic | None = None
    """None where the member knows it already."""
    to_initialize: PartitionsByTopic = NO_PARTITIONS
    """PartitionsByTopic that nobody can be given before their share state is there."""
    state_epoch: int = 0
    """The epoch to initialise them with."""


class ShareGroupLimits(NamedTuple):
    """The settings that share groups obey; some differ from group to group."""

    max_size: int = 200
    initialize_retry_ms: int = 30_000
    session_timeout_ms: Callable[[str], int] = lambda _: 45_000
    heartbeat_interval_ms: Callable[[str], int] = lambda _: 5_000


DEFAULT_SHARE_LIMITS: Final = ShareGroupLimits()
HeartbeatReply = Callable[[HeartbeatAnswer], None]
