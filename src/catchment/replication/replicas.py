"""All partitions that this broker holds, kept in step with the metadata image."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage, PartitionImage, TopicImage
from catchment.ports.disk import Disk, SyncGroup
from catchment.protocol.batch import CorruptBatch
from catchment.protocol.errors import ApiError
from catchment.replication.group_commit import DirectorySync, GroupCommit
from catchment.replication.partition import Partition
from catchment.settings.broker import BrokerSettings
from catchment.storage.config import LogConfig
from catchment.storage.directory import LogDirectory
from catchment.storage.log import Log

_logger = logging.getLogger(__name__)

_MOST_CONFIGS = 4096


class _Topic:
    """A topic and its partitions; None for one that another broker leads, or whose log could not be opened."""

    __slots__ = ("image", "partitions")

    def __init__(self, image: TopicImage) -> None:
        self.image = image
        self.partitions: list[Partition | None] = []


class Replicas:
    def __init__(self, settings: BrokerSettings, disk: Disk, directories: Sequence[LogDirectory]) -> None:
        self._settings = settings
        self._disk = disk
        self._directories = directories
        self._topics: dict[str | UUID, _Topic] = {}
        """By name and by id, so that either is one look-up."""
        # One for each directory, because they may be on different devices, and a slow one must not hold up another.
        self._commits = {directory.path: GroupCommit(disk) for directory in directories}
        self._checkpointing = asyncio.Lock()
        self._configs: dict[frozenset[tuple[str, str]], LogConfig] = {}

    def __iter__(self) -> Iterator[Partition]:
        for key, topic in list(self._topics.items()):
            if isinstance(key, str):
                yield from (partition for partition in topic.partitions if partition is not None)

    @property
    def directories(self) -> Sequence[LogDirectory]:
        return self._directories

    def find(self, key: str | UUID, number: int) -> Partition:
        """The partition that this broker leads, or the error that makes a client refresh its metadata."""
        topic = self._topics.get(key)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition if isinstance(key, str) else ErrorCode.unknown_topic_id)
        if not 0 <= number < len(topic.partitions):
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        return topic.partitions[number] or self._open_late(topic, number)

    def get(self, key: str | UUID, number: int) -> Partition | None:
        """The partition if it is open here, else None."""
        topic = self._topics.get(key)
        return topic.partitions[number] if topic is not None and 0 <= number < len(topic.partitions) else None

    def apply(self, old: MetadataImage, new: MetadataImage) -> Awaitable[object] | None:
        """Apply a change of the image: open, change and delete partitions. Returns what to await until deletions are durable."""
        has_deleted = False
        for name, topic in old.topics.items():
            successor = new.topics.get(name)
            if successor is None or successor.id != topic.id:
                self._delete(topic)
                has_deleted = True
        for name, topic in new.topics.items():
            if old.topics.get(name) is not topic:
                self._update(topic)
        return self._sync_directories() if has_deleted else None

    def _sync_directories(self) -> Awaitable[object]:
        """Make renames and removals in every directory durable, with the next round of syncs."""
        members = [DirectorySync(directory.path) for directory in self._directories]
        for member in members:
            self._commits[member.path].add(member)
        return asyncio.gather(*(member.done for member in members))

    def use_settings(self, settings: BrokerSettings) -> None:
        """Apply other defaults to every topic that does not override them."""
        self._settings = settings
        self._configs.clear()
        for key, topic in list(self._topics.items()):
            if isinstance(key, str):
                self._update(topic.image)

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The settings of a log whose topic has these overrides; equal ones share a configuration."""
        key = frozenset(overrides.items())
        config = self._configs.get(key)
        if config is None:
            values = self._settings.topic_values(overrides)
            expiration_ms = self._settings["producer.id.expiration.ms"]
            config = LogConfig.from_settings({**values, "producer.id.expiration.ms": expiration_ms})
            if len(self._configs) >= _MOST_CONFIGS:
                self._configs.clear()
            self._configs[key] = config
        return config

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        return {(partition.topic, partition.number): partition.high_watermark for partition in self}

    async def checkpoint(self) -> None:
        """Write the recovery points, log starts and high watermarks, so that a start after a crash reads less."""
        high_watermarks = self.high_watermarks()
        for directory in self._directories:
            await self._checkpoint(directory, high_watermarks)

    async def checkpoint_log_starts(self) -> None:
        """Make the log starts durable: deleted records must not come back after a crash."""
        for directory in self._directories:
            await self._checkpoint(directory, only_log_starts=True)

    async def _checkpoint(
        self,
        directory: LogDirectory,
        high_watermarks: Mapping[tuple[str, int], int] | None = None,
        *,
        only_log_starts: bool = False,
    ) -> None:
        # One after the other, or an older checkpoint could replace a newer one.
        async with self._checkpointing:
            made = directory.begin_checkpoint(high_watermarks, only_log_starts=only_log_starts)
            await self._disk.replace_files(made.replacements)
            if changed := directory.end_checkpoint(made):
                (failure,) = await self._disk.sync_groups([SyncGroup((), changed)])
                if failure is not None:
                    raise failure

    async def synced(self) -> None:
        """Wait until no partition has a sync in progress."""
        for commits in self._commits.values():
            await commits.idle()

    async def finish(self) -> None:
        """Prepare every log for a clean close, all of them together: one after the other, thousands would take minutes.

        What fails here fails again when the directory is closed: the stop is not marked as clean then.
        """
        await self.synced()
        for directory in self._directories:
            logs = [log for log in directory.logs.values() if log.has_changed and not log.is_offline]
            with contextlib.suppress(OSError, CorruptBatch):
                await self._finish(logs)

    async def _finish(self, logs: Sequence[Log]) -> None:
        for log in logs:
            log.finish()
        ends = [log.log_end_offset for log in logs]
        failures = await self._disk.sync_groups([log.unsynced_group() for log in logs])
        dirty = [log for log in logs if log.leader_epochs.is_dirty]
        await self._disk.replace_files([log.begin_epoch_flush() for log in dirty])
        for log in dirty:
            log.end_epoch_flush()
        for log, end_offset, failure in zip(logs, ends, failures, strict=True):
            if failure is not None:
                log.fail(failure)
                continue
            log.mark_finished(end_offset)

    def _update(self, image: TopicImage) -> None:
        topic = self._topics.get(image.name)
        if topic is None:
            topic = self._topics[image.name] = self._topics[image.id] = _Topic(image)
        topic.image = image
        config = self.log_config(image.settings)
        for number, state in enumerate(image.partitions):
            if number == len(topic.partitions):
                topic.partitions.append(self._try_open(image, state, config))
            self._adjust(topic.partitions[number], state, config)

    def _adjust(self, partition: Partition | None, state: PartitionImage, config: LogConfig) -> None:
        if partition is not None:
            partition.log.update_config(config)
            partition.isr = state.isr
            partition.replicas = state.replicas

    def _try_open(self, image: TopicImage, state: PartitionImage, config: LogConfig) -> Partition | None:
        """None if another broker leads the partition, or if the disk fails: the topic exists all the same."""
        if state.leader != self._settings.node_id:
            return None
        try:
            return self._open(image, state, config)
        except OSError as error:
            _logger.error("%s-%d cannot be opened: %s", image.name, state.partition, error)
            return None

    def _open_late(self, topic: _Topic, number: int) -> Partition:
        """Try again to open a log that the disk failed to open: there may be space by now."""
        state = topic.image.partitions[number]
        if state.leader != self._settings.node_id:
            raise ApiError(ErrorCode.not_leader_or_follower)
        config = self.log_config(topic.image.settings)
        partition = topic.partitions[number] = self._try_open(topic.image, state, config)
        if partition is None:
            raise ApiError(ErrorCode.kafka_storage_error, f"{topic.image.name}-{number} cannot be opened")
        self._adjust(partition, state, config)
        return partition

    def _open(self, image: TopicImage, state: PartitionImage, config: LogConfig) -> Partition:
        directory = self._directory_of(image.name, state.partition)
        log = None if directory is None else self._existing_log(directory, image, state.partition)
        if directory is None or log is None:
            directory = min(self._directories, key=lambda each: len(each.logs))
            log = directory.create_log(image.name, state.partition, image.id, config)
        elif log.synced_offset < log.log_end_offset:
            # Readers are about to see what an unclean stop left in the page cache: make it durable first.
            log.sync()
        return Partition(image.name, log, self._commits[directory.path], leader_epoch=state.leader_epoch)

    def _existing_log(self, directory: LogDirectory, image: TopicImage, number: int) -> Log | None:
        """The log on disk, unless it belongs to an older topic of the same name, whose deletion a crash interrupted."""
        log = directory.logs[image.name, number]
        if log.topic_id not in (None, image.id):
            directory.delete_log(image.name, number)
            self._commits[directory.path].add(DirectorySync(directory.path))
            return None
        return log

    def _directory_of(self, name: str, number: int) -> LogDirectory | None:
        return next((each for each in self._directories if (name, number) in each.logs), None)

    def _delete(self, image: TopicImage) -> None:
        self._topics.pop(image.id, None)
        topic = self._topics.pop(image.name, None)
        for partition in topic.partitions if topic is not None else ():
            directory = self._directory_of(image.name, partition.number) if partition is not None else None
            if partition is None or directory is None:
                continue
            partition.stop()
            try:
                directory.delete_log(image.name, partition.number)
            except OSError as error:
                _logger.error("the files of %s-%d are left behind: %s", image.name, partition.number, error)
