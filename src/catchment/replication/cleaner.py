"""The log cleaner: compact the logs of this broker, the one with the highest dirty ratio first.

A worker reads segments that no longer change and writes cleaned ones beside them. The event loop only chooses a log, and swaps
the result in between two requests, if the log is still what it was. A failure leaves the log as it was, and is retried later.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

from catchment.ports.clock import Clock
from catchment.ports.disk import Disk
from catchment.ports.workers import Worker, WorkerDied
from catchment.protocol.batch import CorruptBatch
from catchment.replication.partition import Partition
from catchment.settings.broker import BrokerSettings
from catchment.storage import checkpoint, layout
from catchment.storage.compaction.filter import keys_in
from catchment.storage.compaction.plan import (
    CompactionJob,
    CompactionResult,
    DirtySection,
    find_dirty_section,
    find_sources,
    plan,
)
from catchment.storage.compaction.rewrite import discard, rewrite
from catchment.storage.log import Log

_logger = logging.getLogger(__name__)

_PARTITIONS_A_TURN = 32
_FAILURE_BACKOFF_SECONDS = 60.0

Offsets = dict[tuple[str, int], int]


class _Clean(NamedTuple):
    """Up to where a log is clean. A topic that was deleted and created again has another log under the same name."""

    log: Log
    offset: int


class CheckpointJob(NamedTuple):
    log_directory: str
    path: str
    offsets: Offsets


def write_checkpoint(disk: Disk, job: CheckpointJob) -> Generator[None, None, None]:
    """Make a swap durable, and only then record the log as clean: a record must not come back without its tombstone."""
    disk.sync_directory(job.log_directory)
    yield
    disk.replace_file(job.path, checkpoint.encode_offsets(job.offsets))


class LogCleaner:
    def __init__(
        self,
        partitions: Iterable[Partition],
        disk: Disk,
        clock: Clock,
        settings: Callable[[], BrokerSettings],
        worker: Worker,
    ) -> None:
        self._partitions = partitions
        self._disk = disk
        self._clock = clock
        self._settings = settings
        self._worker = worker
        self._clean: dict[tuple[str, int], _Clean] | None = None
        """None until the checkpoints have been read."""
        self._retry_s: dict[tuple[str, int], float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._clean_for_ever())

    async def close(self) -> None:
        """Stop at once and discard what the worker has not finished."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._worker.rest()

    async def clean_all(self) -> int:
        """Clean every log that is dirty enough; the number of logs cleaned."""
        count = 0
        await self._forget_replaced_logs()
        while (found := await self._dirtiest()) is not None:
            count += await self._try_to_clean(*found)
        await self._worker.rest()
        return count

    async def _clean_for_ever(self) -> None:
        while True:
            settings = self._settings()
            await asyncio.sleep(settings.integer("log.cleaner.backoff.ms") / 1000)
            if not settings.boolean("log.cleaner.enable"):
                continue
            try:
                await self.clean_all()
            except OSError as error:
                _logger.error("compaction failed and will be retried: %s", error)

    async def _dirtiest(self) -> tuple[Partition, DirtySection] | None:
        best: tuple[Partition, DirtySection] | None = None
        now_ms = self._clock.now_ms()
        for count, partition in enumerate(self._partitions):
            if count % _PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)
            log = partition.log
            if not log.config.is_compacted or log.is_offline or self._is_backing_off(log):
                continue
            try:
                known = self._known().get((log.topic, log.partition))
                clean_offset = known.offset if known is not None and known.log is log else None
                dirty = find_dirty_section(log, clean_offset, partition.last_stable_offset, now_ms)
            except (OSError, CorruptBatch) as error:
                self._failed(log, error)
                continue
            if dirty.is_due(log.config) and (best is None or dirty.dirty_ratio > best[1].dirty_ratio):
                best = partition, dirty
        return best

    async def _try_to_clean(self, partition: Partition, dirty: DirtySection) -> bool:
        log = partition.log
        job = plan(
            log, dirty, self._clock.now_ms(), keys_in(self._settings().integer("log.cleaner.dedupe.buffer.size"))
        )
        try:
            result = await self._worker.run(rewrite, job)
            is_done = self._swap(log, job, result)
            if is_done:
                self._known()[log.topic, log.partition] = _Clean(log, result.end_offset)
                await self._checkpoint(log)
            else:
                self._back_off(log)
            return is_done
        except Exception as error:
            # Whatever the error, this log is as it was, and the others must be cleaned too.
            self._failed(log, error)
            return False
        finally:
            # A finished job leaves no files; those of any other must go.
            with contextlib.suppress(OSError):
                discard(self._disk, job)

    def _swap(self, log: Log, job: CompactionJob, result: CompactionResult) -> bool:
        """Swap the oldest first; once one cannot be swapped, the rest stay, since their tombstones may be gone."""
        before_bytes = log.size_bytes
        if not log.config.is_compacted or not any(partition.log is log for partition in self._partitions):
            return False
        for group, cleaned in zip(job.groups, result.cleaned, strict=False):
            sources = find_sources(log, job, group)
            if sources is None:
                _logger.info(
                    "%s-%d changed during its compaction; the rest is left to the next one", log.topic, log.partition
                )
                return False
            log.replace_segments(sources, cleaned)
        _logger.info(
            "compacted %s-%d up to offset %d: from %d to %d bytes",
            *(log.topic, log.partition, result.end_offset, before_bytes, log.size_bytes),
        )
        return True

    async def _checkpoint(self, log: Log) -> None:
        directory = _parent(log)
        offsets = {key: clean.offset for key, clean in self._known().items() if _parent(clean.log) == directory}
        path = f"{directory}/{layout.CLEANER_OFFSETS}"
        await self._worker.run(write_checkpoint, CheckpointJob(log.directory, path, offsets))

    def _known(self) -> dict[tuple[str, int], _Clean]:
        """Up to where each log is clean. The checkpoints are read once, for the logs that exist at the start."""
        if self._clean is None:
            self._clean = {}
            files: dict[str, Offsets] = {}
            for log in [partition.log for partition in self._partitions]:
                directory = _parent(log)
                if directory not in files:
                    path = f"{directory}/{layout.CLEANER_OFFSETS}"
                    files[directory] = checkpoint.read_offsets(self._disk, path)
                key = log.topic, log.partition
                if key in files[directory]:
                    self._clean[key] = _Clean(log, files[directory][key])
        return self._clean

    async def _forget_replaced_logs(self) -> None:
        """The checkpoint of a deleted log must not count for a new one of the same name, not even after a restart."""
        logs = {(partition.log.topic, partition.log.partition): partition.log for partition in self._partitions}
        known = self._known()
        gone = [key for key, clean in known.items() if logs.get(key) is not clean.log]
        directories = {_parent(known.pop(key).log): None for key in gone}
        for directory in directories:
            survivor = next((log for log in logs.values() if _parent(log) == directory), None)
            if survivor is not None:
                try:
                    await self._checkpoint(survivor)
                except (OSError, WorkerDied) as error:
                    _logger.error("the cleaner's checkpoint in %s could not be written: %s", directory, error)

    def _is_backing_off(self, log: Log) -> bool:
        return self._clock.monotonic_s() < self._retry_s.get((log.topic, log.partition), 0.0)

    def _back_off(self, log: Log) -> None:
        self._retry_s[log.topic, log.partition] = self._clock.monotonic_s() + _FAILURE_BACKOFF_SECONDS

    def _failed(self, log: Log, error: Exception) -> None:
        self._back_off(log)
        _logger.error("%s-%d could not be compacted and is unchanged: %s", log.topic, log.partition, error)


def _parent(log: Log) -> str:
    return log.directory.rpartition("/")[0]
