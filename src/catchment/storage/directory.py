"""One log directory: its identity, its lock, its checkpoints, and the logs in it.

The clean-shutdown marker is removed, durably, before any log is opened: whatever happens from then on until a clean close, the
next start recovers the logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID, uuid4

from catchment.ports.clock import Clock
from catchment.ports.disk import Disk, Replacement, UnusableDirectory
from catchment.protocol.batch import CorruptBatch
from catchment.storage import checkpoint, layout
from catchment.storage.config import LogConfig
from catchment.storage.log import Log
from catchment.storage.recovery import create_log, open_log

TopicPartition = tuple[str, int]

_KNOWN_VERSIONS = ("0", "1")
"""Of `meta.properties`: Kafka wrote 0 while it had ZooKeeper."""


class LogDirectoryMismatch(UnusableDirectory):
    """The directory belongs to another node or cluster, or to an unknown version."""


class Checkpoint(NamedTuple):
    """The checkpoint files as they should be on disk."""

    replacements: list[Replacement]
    partitions: list[TopicPartition]
    first_covered: list[Log]
    """Logs whose own values the files hold for the first time, in place of those of a deleted log of the same name."""


class LogDirectory:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        path: str,
        *,
        node_id: int,
        cluster_id: str | None = None,
        new_id: Callable[[], UUID] = uuid4,
    ) -> None:
        """Lock the directory, creating it if need be; `open_logs` must follow.

        Without a `cluster_id` the directory's own counts, or a new one is made.
        """
        self._disk = disk
        self._clock = clock
        self._new_id = new_id
        self.path = path.rstrip("/") or "/"
        self.logs: dict[TopicPartition, Log] = {}
        self.high_watermarks: Mapping[TopicPartition, int] = {}
        self.previous_broker_epoch: int | None = None
        self._removals: list[tuple[int, str]] = []
        self._checkpointed: dict[TopicPartition, None] = {}
        """The partitions that the checkpoints on disk may name."""
        self._not_checkpointed: dict[TopicPartition, Log] = {}
        """Logs with the name of a deleted one, whose values may still be in the checkpoints on disk."""
        if not disk.exists(self.path):
            disk.make_directory(self.path)
            disk.sync_directory(self.path.rpartition("/")[0] or "/")
        self._lock = disk.lock_directory(self.path)
        try:
            self.cluster_id, self.directory_id = self._identify(node_id, cluster_id)
        except BaseException:
            self._lock.release()
            raise

    @property
    def was_clean(self) -> bool:
        """Whether the last user of the directory closed it."""
        return self.previous_broker_epoch is not None

    @property
    def is_offline(self) -> bool:
        return any(log.is_offline for log in self.logs.values())

    def create_log(self, topic: str, partition: int, topic_id: UUID | None, config: LogConfig) -> Log:
        key = topic, partition
        path = self._file(layout.partition_directory(topic, partition))
        if self._disk.exists(path):
            # Left by a topic of this name that could not be deleted, or by a creation that failed.
            self._mark_deleted(path, topic, partition, self._clock.now_ms())
        is_checkpointed = key in self._checkpointed
        if is_checkpointed:
            # After a crash, the checkpoints of a deleted log of this name must not count for the new one. The file is the first
            # in the directory: no crash leaves a batch without it.
            self._disk.make_directory(path)
            self._disk.open_file(f"{path}/{layout.NOT_CHECKPOINTED}").close()
        log = create_log(self._disk, self._clock, path, topic, partition, topic_id, config)
        self.logs[key] = log
        if is_checkpointed:
            self._not_checkpointed[key] = log
        return log

    def delete_log(self, topic: str, partition: int) -> None:
        """Delete a log, durably once the directory is synced; its space is freed `file.delete.delay.ms` later."""
        log = self.logs.pop((topic, partition))
        self._not_checkpointed.pop((topic, partition), None)
        log.close(clean=False)
        self._mark_deleted(log.directory, topic, partition, self._clock.now_ms() + log.config.file_delete_delay_ms)

    def _mark_deleted(self, path: str, topic: str, partition: int, due_ms: int) -> None:
        """Rename a partition's directory, so that it is removed with all its files from `due_ms` on."""
        target = self._file(layout.deleted_directory(topic, partition, self._new_id()))
        self._disk.rename(path, target)
        self._removals.append((due_ms, target))

    def remove_deleted(self, now_ms: int) -> None:
        """Free the space of logs and segments deleted long enough ago."""
        for due_ms, path in [removal for removal in self._removals if removal[0] <= now_ms]:
            self._disk.remove_tree(path)
            self._removals.remove((due_ms, path))
        for log in self.logs.values():
            log.remove_deleted(now_ms)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Write the recovery point and the start of each log, and the high watermarks if given; block the caller meanwhile.

        Needed from time to time, and at once after a truncation: what is appended next was not safe before.
        """
        made = self.begin_checkpoint(high_watermarks)
        for replacement in made.replacements:
            self._disk.replace_file(*replacement)
        for path in self.end_checkpoint(made):
            self._disk.sync_directory(path)

    def begin_checkpoint(
        self, high_watermarks: Mapping[TopicPartition, int] | None = None, *, only_log_starts: bool = False
    ) -> Checkpoint:
        """What to write now; `end_checkpoint` once it is on the device. The log starts alone are enough after a deletion."""
        starts = {key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset > 0}
        found = [Replacement(self._file(layout.LOG_STARTS), checkpoint.encode_offsets(starts))]
        if only_log_starts and not self._not_checkpointed:
            self._checkpointed.update(dict.fromkeys(starts))
            return Checkpoint(found, list(self._checkpointed), [])
        self._checkpointed.update(dict.fromkeys(self.logs))
        recovery_points = {key: log.recovery_point for key, log in self.logs.items()}
        found.append(Replacement(self._file(layout.RECOVERY_POINTS), checkpoint.encode_offsets(recovery_points)))
        if high_watermarks is not None:
            found.append(Replacement(self._file(layout.HIGH_WATERMARKS), checkpoint.encode_offsets(high_watermarks)))
        return Checkpoint(found, list(self.logs), list(self._not_checkpointed.values()))

    def end_checkpoint(self, made: Checkpoint) -> list[str]:
        """The checkpoint is on the device. Returns directories that must be synced before it counts."""
        self._checkpointed = dict.fromkeys([*made.partitions, *self._not_checkpointed])
        changed: list[str] = []
        for log in made.first_covered:
            key = log.topic, log.partition
            if self._not_checkpointed.get(key) is log:
                self._disk.remove_file(f"{log.directory}/{layout.NOT_CHECKPOINTED}")
                del self._not_checkpointed[key]
                changed.append(log.directory)
        return changed

    def close(
        self,
        *,
        clean: bool = True,
        broker_epoch: int = -1,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Close every log. The stop is marked as clean only if all of them are safe."""
        try:
            is_clean = clean and not self.is_offline
            for log in self.logs.values():
                try:
                    log.close(clean=clean)
                except (OSError, CorruptBatch) as error:
                    log.fail(error)
                    log.close(clean=False)
                    is_clean = False
            if is_clean:
                self.checkpoint(high_watermarks)
                checkpoint.write_clean_shutdown(self._disk, self._file(layout.CLEAN_SHUTDOWN), broker_epoch)
        finally:
            self._lock.release()

    def _identify(self, node_id: int, cluster_id: str | None) -> tuple[str, UUID]:
        path = self._file(layout.META_PROPERTIES)
        found = checkpoint.read_properties(self._disk, path) or {}
        if found and found.get("version") not in _KNOWN_VERSIONS:
            raise LogDirectoryMismatch(
                f"{path} is damaged, or of a version that this broker does not know: start the version that wrote it, "
                f"or restore the file from a backup"
            )
        found_cluster, found_node = found.get("cluster.id"), found.get("node.id", found.get("broker.id"))
        if cluster_id is not None and found_cluster not in (None, cluster_id):
            raise LogDirectoryMismatch(
                f"{self.path} belongs to cluster {found_cluster}, this broker to {cluster_id}: "
                f"name another log.dirs, or remove {path} if the data is meant to move"
            )
        if found_node not in (None, str(node_id)):
            raise LogDirectoryMismatch(
                f"{self.path} belongs to node {found_node}, this broker is node {node_id}: set node.id={found_node} "
                f"or name another log.dirs"
            )
        cluster_id = found_cluster or cluster_id or layout.format_uuid(self._new_id())
        directory_id = found.get("directory.id") or layout.format_uuid(self._new_id())
        wanted = {
            "version": "1",
            "cluster.id": cluster_id,
            "node.id": str(node_id),
            "directory.id": directory_id,
        }
        if any(found.get(name) != value for name, value in wanted.items()):
            checkpoint.write_properties(self._disk, path, wanted)
        return cluster_id, layout.parse_uuid(directory_id)

    def _remove_clean_shutdown_marker(self) -> int | None:
        path = self._file(layout.CLEAN_SHUTDOWN)
        broker_epoch = checkpoint.read_clean_shutdown(self._disk, path)
        if broker_epoch is not None:
            self._disk.remove_file(path)
            self._disk.sync_directory(self.path)
        return broker_epoch

    def open_logs(self, config_for: Callable[[str], LogConfig]) -> None:
        """Open every log in the directory; `config_for` gives a topic's settings."""
        self.previous_broker_epoch = self._remove_clean_shutdown_marker()
        self.high_watermarks = checkpoint.read_offsets(self._disk, self._file(layout.HIGH_WATERMARKS))
        recovery_points = checkpoint.read_offsets(self._disk, self._file(layout.RECOVERY_POINTS))
        log_starts = checkpoint.read_offsets(self._disk, self._file(layout.LOG_STARTS))
        self._checkpointed = dict.fromkeys([*recovery_points, *log_starts])
        for entry in self._disk.list_directory(self.path):
            if not entry.is_directory:
                continue
            if layout.is_deleted_directory(entry.name):
                self._removals.append((self._clock.now_ms(), self._file(entry.name)))
                continue
            key = layout.parse_partition_directory(entry.name)
            if key is None:
                continue
            topic, partition = key
            is_not_checkpointed = not self.was_clean and self._disk.exists(
                f"{self._file(entry.name)}/{layout.NOT_CHECKPOINTED}"
            )
            self.logs[key] = log = open_log(
                self._disk,
                self._clock,
                self._file(entry.name),
                topic,
                partition,
                config_for(topic),
                is_clean=self.was_clean,
                recovery_point=0 if is_not_checkpointed else recovery_points.get(key, 0),
                log_start_offset=0 if is_not_checkpointed else log_starts.get(key, 0),
            )
            if is_not_checkpointed:
                self._not_checkpointed[key] = log
        if not self.was_clean and self.logs:
            # Recovery may have found less than the last checkpoints say.
            self.checkpoint()

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"
