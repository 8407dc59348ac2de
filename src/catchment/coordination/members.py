"""One member of a classic group, as the coordinator sees it while the group lives.

What is logged of a member is its `MemberRecord`, written when a generation has its assignments. Its waiting requests and
whether it has ever joined are volatile: after a failover the member is simply there, and its session begins anew.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from catchment.coordination.commands import JoinAnswer, JoinReply, Protocols, SyncAnswer, SyncReply
from catchment.coordination.group_records import MemberRecord


class Member:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """Whether its first join still waits: until that is answered, it cannot send heartbeats."""
        self.joining: JoinReply | None = None
        self.syncing: SyncReply | None = None

    @classmethod
    def from_record(cls, record: MemberRecord, protocol_name: str | None) -> Member:
        return cls(
            record.member_id,
            record.instance_id,
            record.client_id,
            record.client_host,
            record.rebalance_timeout_ms,
            record.session_timeout_ms,
            ((protocol_name or "", record.subscription),),
            record.assignment,
        )

    def to_record(self, protocol_name: str | None, assignment: bytes) -> MemberRecord:
        return MemberRecord(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol_name),
            assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for us, so that we cannot hold its silence against it."""
        return self.joining is not None or self.syncing is not None

    def knows(self, protocol_name: str) -> bool:
        return any(name == protocol_name for name, _ in self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The first of its protocols that every member knows."""
        return next(name for name, _ in self.protocols if name in candidates)

    def wait_for_join(self, reply: JoinReply) -> None:
        """Take the place of an earlier join of the same member, whose connection is gone by now."""
        self.answer_join(JoinAnswer(ErrorCode.rebalance_in_progress, self.member_id))
        self.joining = reply

    def wait_for_sync(self, reply: SyncReply) -> None:
        self.answer_sync(SyncAnswer(ErrorCode.rebalance_in_progress))
        self.syncing = reply

    def answer_join(self, answer: JoinAnswer) -> None:
        if self.joining is not None:
            reply, self.joining = self.joining, None
            reply(answer)

    def answer_sync(self, answer: SyncAnswer) -> None:
        if self.syncing is not None:
            reply, self.syncing = self.syncing, None
            reply(answer)

    def dismiss(self, error: ErrorCode) -> None:
        """Answer whatever waits: the member is no longer part of the group."""
        self.answer_join(JoinAnswer(error))
        self.answer_sync(SyncAnswer(error))
