"""All partitions that this broker holds, kept in step with the metadata image."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage, PartitionImage, TopicImage
from catchment.ports.broker_settings import BrokerSettings
from catchment.ports.disk import Disk
from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition
from catchment.storage.config import LogConfig
from catchment.storage.directory import LogDirectory
from catchment.storage.log import Log

_logger = logging.getLogger(__name__)


class Replicas:
    def __init__(self, settings: BrokerSettings, disk: Disk, directories: Sequence[LogDirectory]) -> None:
        self._settings = settings
        self._disk = disk
        self._directories = directories
        self._topics: dict[str | UUID, list[Partition | None]] = {}
        """By name and by id, so that each way of asking is one look-up."""

    def __iter__(self) -> Iterator[Partition]:
        for key, partitions in list(self._topics.items()):
            if isinstance(key, str):
                yield from (partition for partition in partitions if partition is not None)

    @property
    def directories(self) -> Sequence[LogDirectory]:
        return self._directories

    def find(self, topic: str | UUID, number: int) -> Partition:
        """The partition that this broker leads, or the error that makes a client look elsewhere."""
        partitions = self._topics.get(topic)
        if partitions is None:
            raise ApiError(
                ErrorCode.unknown_topic_or_partition if isinstance(topic, str) else ErrorCode.unknown_topic_id
            )
        if not 0 <= number < len(partitions):
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        partition = partitions[number]
        if partition is None:
            raise ApiError(ErrorCode.not_leader_or_follower)
        return partition

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        """Follow a change of the image: open, change and delete partitions."""
        for name, topic in old.topics.items():
            successor = new.topics.get(name)
            if successor is None or successor.id != topic.id:
                self._delete(topic)
        for name, topic in new.topics.items():
            if old.topics.get(name) is not topic:
                self._update(topic)

    def use_settings(self, settings: BrokerSettings, image: MetadataImage) -> None:
        """Take on other defaults: every topic that does not override them changes with them."""
        self._settings = settings
        for topic in image.topics.values():
            self._update(topic)

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The settings of a log whose topic has these overrides."""
        values = self._settings.topic_values(overrides)
        return LogConfig.from_settings(
            {**values, "producer.id.expiration.ms": self._settings["producer.id.expiration.ms"]}
        )

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        return {(partition.topic, partition.number): partition.high_watermark for partition in self}

    def _update(self, topic: TopicImage) -> None:
        values = self._settings.topic_values(topic.settings)
        config = self.log_config(topic.settings)
        min_isr = values["min.insync.replicas"]
        assert isinstance(min_isr, int)
        partitions = self._topics.setdefault(topic.name, [])
        self._topics[topic.id] = partitions
        for state in topic.partitions[len(partitions) :]:
            partitions.append(self._open(topic, state, config) if self._leads(state) else None)
        for state, partition in zip(topic.partitions, partitions, strict=True):
            if partition is not None:
                partition.log.config = config
                partition.min_isr = min_isr
                partition.isr = state.isr
                partition.replicas = state.replicas

    def _leads(self, state: PartitionImage) -> bool:
        return state.leader == self._settings.node_id

    def _open(self, topic: TopicImage, state: PartitionImage, config: LogConfig) -> Partition:
        directory = next(
            (directory for directory in self._directories if (topic.name, state.partition) in directory.logs), None
        )
        if directory is None:
            directory = min(self._directories, key=lambda each: len(each.logs))
            log = directory.create_log(topic.name, state.partition, topic.id, config)
        else:
            log = directory.logs[topic.name, state.partition]
            _settle(log)
        log.assign_leader_epoch(state.leader_epoch)
        return Partition(topic.name, log, self._disk, leader_epoch=state.leader_epoch, min_isr=1)

    def _delete(self, topic: TopicImage) -> None:
        self._topics.pop(topic.id, None)
        for partition in self._topics.pop(topic.name, []):
            if partition is not None:
                partition.wake_all()
                directory = next(each for each in self._directories if (topic.name, partition.number) in each.logs)
                directory.delete_log(topic.name, partition.number)


def _settle(log: Log) -> None:
    """Make durable what an unclean stop left in the page cache: readers are about to see it."""
    if log.synced_offset < log.log_end_offset:
        for file in log.unsynced_files():
            file.sync()
        log.mark_synced(log.log_end_offset)
