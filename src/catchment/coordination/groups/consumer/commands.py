"""The ConsumerGroupHeartbeat request and response, and the settings of consumer groups."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import MAX_NAME_BYTES, is_too_long
from catchment.coordination.groups.consumer.group import STATIC_LEAVING
from catchment.coordination.groups.modern import JOINING, LEAVING, NO_TIMEOUT, PartitionsByTopic
from catchment.protocol.errors import ApiError


class MigrationPolicy(StrEnum):
    """Which groups may be converted to the other protocol while they have members."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class GroupTiming(NamedTuple):
    """The session time-out and the heartbeat interval of a group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000


class ConsumerGroupLimits(NamedTuple):
    timing_of: Callable[[str], GroupTiming] = lambda _: GroupTiming()
    """The timing of a group, which may have settings of its own."""
    max_size: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first one is the default for groups whose members name none."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


DEFAULT_LIMITS: Final = ConsumerGroupLimits()


class HeartbeatRequest(NamedTuple):
    """A field that is None or -1 has not changed since the member's last heartbeat."""

    group_id: str
    member_id: str
    epoch: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NO_TIMEOUT
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: PartitionsByTopic | None = None
    makes_own_id: bool = True
    """Whether members generate their ids themselves (version 1)."""

    @property
    def is_full(self) -> bool:
        """Whether the member sends all its fields, as after an error: then the response is complete too."""
        has_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != NO_TIMEOUT and has_subscription and self.owned is not None

    def check(self, assignors: tuple[str, ...]) -> None:
        """ApiError for an invalid request, in the order of Kafka's checks."""
        if not self.member_id.strip() and (self.makes_own_id or self.epoch > 0 or self.epoch == LEAVING):
            raise ApiError(ErrorCode.invalid_request, "A member needs an id.")
        if not self.group_id.strip():
            raise ApiError(ErrorCode.invalid_request, "A group needs an id.")
        if self.instance_id is not None and not self.instance_id.strip():
            raise ApiError(ErrorCode.invalid_request, "An instance id may be absent, but not empty.")
        if self.rack_id is not None and not self.rack_id.strip():
            raise ApiError(ErrorCode.invalid_request, "A rack may be absent, but not empty.")
        if any(map(is_too_long, (self.group_id, self.member_id, self.instance_id, self.regex))):
            raise ApiError(ErrorCode.invalid_request, f"A name in the request is longer than {MAX_NAME_BYTES} bytes.")
        if self.epoch == JOINING:
            self._check_join()
        elif self.epoch == STATIC_LEAVING and self.instance_id is None:
            raise ApiError(ErrorCode.invalid_request, "Only a static member can leave temporarily.")
        elif self.epoch < STATIC_LEAVING:
            raise ApiError(ErrorCode.invalid_request, f"The member epoch {self.epoch} is invalid.")
        if self.assignor is not None and self.assignor not in assignors:
            known = ", ".join(assignors)
            raise ApiError(
                ErrorCode.unsupported_assignor,
                f"The assignor '{self.assignor}' is not supported. Supported assignors: {known}.",
            )

    def _check_join(self) -> None:
        if self.rebalance_timeout_ms == NO_TIMEOUT:
            raise ApiError(ErrorCode.invalid_request, "A member that joins must set a rebalance time-out.")
        if self.owned is None or self.owned:
            raise ApiError(ErrorCode.invalid_request, "A member that joins must report that it owns no partitions.")
        if self.topics is None and self.regex is None:
            raise ApiError(
                ErrorCode.invalid_request,
                "A member that joins must subscribe to topics, by name or by a regular expression.",
            )


class HeartbeatResponse(NamedTuple):
    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: PartitionsByTopic | None = None
    """None if it has not changed."""


HeartbeatReply = Callable[[HeartbeatResponse], None]
