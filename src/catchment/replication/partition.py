"""A partition as a broker leads it: the log, how far it is safe, and who waits.

Three ends, never confused: the log end is what was appended; the high watermark is what cannot be lost, and all that
readers see; the last stable offset is where the first open transaction begins, and all that readers of committed data see.

Where the in-sync set is this broker alone, what cannot be lost is what its disk has synced (`catchment.sync.acks`), so the
high watermark follows the sync. One sync serves every request that arrived before it began.
"""

import asyncio
import logging

from kio.schema.errors import ErrorCode

from catchment.ports.disk import Disk
from catchment.protocol.errors import ApiError
from catchment.replication.verification import Verifications
from catchment.replication.waiting import WaitingReaders, WaitingWriters
from catchment.storage.log import Log
from catchment.storage.log_parts import AppendInfo

_logger = logging.getLogger(__name__)

NO_EPOCH = -1


class Partition:
    __slots__ = (
        "_disk",
        "_syncing",
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

    def __init__(self, topic: str, log: Log, disk: Disk, *, leader_epoch: int) -> None:
        self.topic = topic
        self.log = log
        self.leader_epoch = leader_epoch
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        # After a start, what recovery kept is on this disk, or it would not be here.
        self.high_watermark = log.log_end_offset
        self.writers = WaitingWriters()
        self.readers = WaitingReaders()
        self.verifications = Verifications()
        self._disk = disk
        self._syncing: asyncio.Task[None] | None = None

    @property
    def number(self) -> int:
        return self.log.partition

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.high_watermark)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Fence a client whose idea of the leader is older or newer than ours (KIP-320)."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.fenced_leader_epoch)
        raise ApiError(ErrorCode.unknown_leader_epoch)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one, and its end. The log knows an epoch from its first record on."""
        if leader_epoch == self.leader_epoch:
            return leader_epoch, self.log.log_end_offset
        return self.log.epoch_end_offset(leader_epoch)

    def append(self, batch: memoryview, acks: int, *, is_from_client: bool = True) -> AppendInfo:
        """Append one batch from a client, or from a coordinator of this broker. It is not safe yet: see `durable`."""
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
            self._start_sync()
        else:
            self.advance(info.last_offset + 1)
            if info.base_offset == self.log.segments.active.base_offset and len(self.log.segments) > 1:
                # A new segment: put the finished one on the device, so that recovery need not read it.
                self._start_sync()
        return info

    def durable(self, info: AppendInfo) -> "asyncio.Future[None] | None":
        """What to await until the append cannot be lost; None if that is so already."""
        if info.last_offset < self.high_watermark:
            return None
        return self.writers.add(info.last_offset + 1)

    def advance(self, offset: int) -> None:
        """Move the high watermark forward and wake those who waited for it."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.writers.reached(offset)
            self.readers.notify()

    def flush_if_overdue(self, now_ms: int) -> None:
        """Kafka's `flush.ms`: bound how long a record may wait for the device."""
        if self.log.needs_flush(now_ms):
            self._start_sync()

    def apply_retention(self, now_ms: int) -> None:
        if self.log.apply_retention(now_ms, self.high_watermark):
            self.readers.notify()

    async def synced(self) -> None:
        """Wait until no sync is under way."""
        while self._syncing is not None:
            await asyncio.wait([self._syncing])

    def wake_all(self) -> None:
        """Let waiting requests look again: the partition has changed or is gone."""
        self.writers.fail(ApiError(ErrorCode.not_leader_or_follower))
        self.readers.notify()

    def _must_sync(self) -> bool:
        """Whether the end of the log is safe only once it is on the device."""
        config = self.log.config
        unsynced = self.log.log_end_offset - self.log.synced_offset
        return unsynced > 0 and (config.sync_acks or unsynced >= config.flush_messages)

    def _start_sync(self) -> None:
        if self._syncing is None:
            self._syncing = asyncio.get_running_loop().create_task(self._sync())

    async def _sync(self) -> None:
        log = self.log
        try:
            while True:
                end = log.log_end_offset
                await self._disk.sync_files(log.unsynced_files())
                log.mark_synced(end)
                self.advance(end)
                if not self._must_sync():
                    break
        except OSError as error:
            _logger.error("%s-%d is offline: a sync failed: %s", self.topic, self.number, error)
            log.fail(error)
            self.writers.fail(ApiError(ErrorCode.kafka_storage_error, f"{self.topic}-{self.number}: {error}"))
        finally:
            self._syncing = None
