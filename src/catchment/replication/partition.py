"""A partition as a broker leads it: the log, its high watermark, and the requests that wait for it.

Three offsets must not be confused. The log end offset is what was appended. The high watermark is what cannot be lost, and all
that readers see. The last stable offset is where the first open transaction begins, and all that readers of committed data see.

Where the in-sync set is this broker alone, what cannot be lost is what its disk has synced (`catchment.sync.acks`), so the
high watermark follows the sync: see `group_commit`. One sync serves every request that arrived before it began.
"""

import asyncio
import logging

from kio.schema.errors import ErrorCode

from catchment.ports.disk import SyncGroup
from catchment.protocol.errors import ApiError
from catchment.replication.group_commit import GroupCommit
from catchment.replication.verification import Verifications
from catchment.replication.waiting import WaitingReaders, WaitingWriters
from catchment.storage.log import AppendInfo, Log
from catchment.storage.validation import PreparedBatch

_logger = logging.getLogger(__name__)

NO_EPOCH = -1


class Partition:
    __slots__ = (
        "_commits",
        "_is_stopped",
        "_syncing_to",
        "high_watermark",
        "isr",
        "leader_epoch",
        "log",
        "readers",
        "replicas",
        "topic",
        "verifications",
        "writers",
    )

    def __init__(self, topic: str, log: Log, commits: GroupCommit, *, leader_epoch: int) -> None:
        self.topic = topic
        self.log = log
        self.leader_epoch = leader_epoch
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        # After a start, everything that recovery has kept is on this disk.
        self.high_watermark = log.log_end_offset
        self.writers = WaitingWriters()
        self.readers = WaitingReaders()
        self.verifications = Verifications()
        self._commits = commits
        self._syncing_to = log.log_end_offset
        self._is_stopped = False

    @property
    def number(self) -> int:
        return self.log.partition

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.high_watermark)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Fence a client whose leader epoch is older or newer than ours (KIP-320)."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.fenced_leader_epoch)
        raise ApiError(ErrorCode.unknown_leader_epoch)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one, and its end. The log has an epoch only from its first record on."""
        if leader_epoch == self.leader_epoch:
            return leader_epoch, self.log.log_end_offset
        return self.log.epoch_end_offset(leader_epoch)

    def append(self, batch: memoryview | PreparedBatch, acks: int, *, is_from_client: bool = True) -> AppendInfo:
        """Append one batch from a client, or from a coordinator of this broker. It may still be lost: see `durable`."""
        if acks == -1 and len(self.isr) < self.log.config.min_insync_replicas:
            raise ApiError(
                ErrorCode.not_enough_replicas,
                f"{self.topic}-{self.number} has {len(self.isr)} in-sync replicas, "
                f"min.insync.replicas is {self.log.config.min_insync_replicas}",
            )
        info = self.log.append_as_leader(batch, self.leader_epoch, is_from_client=is_from_client)
        if info.is_duplicate:
            return info
        if self._must_sync():
            self._commits.add(self)
        else:
            self.advance(info.last_offset + 1)
            if info.base_offset == self.log.segments.active.base_offset and len(self.log.segments) > 1:
                # A new segment: sync the finished one, so that recovery need not read it.
                self._commits.add(self)
        return info

    def durable(self, info: AppendInfo) -> "asyncio.Future[None] | None":
        """A future that is done once the append cannot be lost; None if it cannot already."""
        if info.last_offset < self.high_watermark:
            return None
        return self.writers.add(info.last_offset + 1)

    def advance(self, offset: int) -> None:
        """Move the high watermark forward and wake the requests that wait for it."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.writers.reached(offset)
            self.readers.notify()

    def flush_if_overdue(self, now_ms: int) -> None:
        """Kafka's `flush.ms`: bound how long a record may stay unsynced."""
        if self.log.needs_flush(now_ms):
            self._commits.add(self)

    def apply_retention(self, now_ms: int) -> None:
        if self.log.apply_retention(now_ms, self.high_watermark):
            self.readers.notify()

    async def synced(self) -> None:
        """Wait until no sync is in progress."""
        await self._commits.idle()

    def stop(self) -> None:
        """The partition is gone: fail the waiting requests, and ignore the end of a sync in progress."""
        self._is_stopped = True
        self.writers.fail(ApiError(ErrorCode.not_leader_or_follower))
        self.readers.notify()

    def _must_sync(self) -> bool:
        """Whether the high watermark must wait for a sync."""
        config = self.log.config
        unsynced = self.log.log_end_offset - self.log.synced_offset
        return unsynced > 0 and (config.sync_acks or unsynced >= config.flush_messages)

    def begin_sync(self) -> SyncGroup:
        self._syncing_to = self.log.log_end_offset
        return self.log.unsynced_group()

    def end_sync(self, failure: OSError | None) -> None:
        log = self.log
        if self._is_stopped:
            return
        if failure is not None:
            _logger.error("%s-%d is offline: a sync failed: %s", self.topic, self.number, failure)
            log.fail(failure)
        if log.is_offline:
            # After a failure a later sync that succeeds proves nothing.
            reason = failure or "the log is offline"
            self.writers.fail(ApiError(ErrorCode.kafka_storage_error, f"{self.topic}-{self.number}: {reason}"))
            return
        log.mark_synced(self._syncing_to)
        self.advance(log.synced_offset)
        if self._must_sync():
            self._commits.add(self)
        if log.needs_epoch_flush:
            self._commits.run_later(self._flush_epochs)

    async def _flush_epochs(self) -> None:
        """What a finished segment needs before the recovery point may pass it. A failure is retried after the next sync."""
        try:
            await self._commits.disk.replace_files([self.log.begin_epoch_flush()])
        except OSError as error:
            if self._is_stopped:
                return
            _logger.error("the leader epochs of %s-%d cannot be written: %s", self.topic, self.number, error)
            return
        self.log.end_epoch_flush()
