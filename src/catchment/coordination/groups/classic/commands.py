"""The requests and responses of the classic group protocol.

A response goes to a `Reply` callback: at once, when other members have joined, or when the records that it depends on are
committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

NO_GENERATION = -1
NO_MEMBER = ""

Protocols = tuple[tuple[str, bytes], ...]
"""The names of the protocols that a member supports, in order of preference, with its metadata for each."""


class JoinRequest(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """-1 from clients that have none: then the session time-out applies."""
    protocol_type: str
    protocols: Protocols
    fresh_id: str
    """A random text from which the shard builds the id of a member that has none."""
    requires_known_member_id: bool = True
    """Whether a new member has to join again with the id that it is assigned (KIP-394)."""
    supports_skipping_assignment: bool = True
    """Whether a static leader that rejoins understands `skip_assignment` (KIP-814)."""


class JoinResponse(NamedTuple):
    error: ErrorCode
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """For the leader: the id, instance id and metadata of each member."""


class SyncRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]


class SyncResponse(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    member_id: str
    instance_id: str | None = None


JoinReply = Callable[[JoinResponse], None]
SyncReply = Callable[[SyncResponse], None]
