"""A log directory: identity, lock, checkpoints, clean and unclean stops, creation and deletion of logs."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.storage.logs import NOW_MS, SMALL, TOPIC_ID, batch, read_all, sync

from catchment.ports.clock import ManualClock
from catchment.ports.disk import Disk
from catchment.ports.memory_disk import MemoryDisk
from catchment.ports.real_disk import RealDisk
from catchment.storage import checkpoint, layout
from catchment.storage.config import LogConfig
from catchment.storage.directory import LogDirectory, LogDirectoryMismatch


def _open(
    disk: Disk,
    path: str = "/data",
    *,
    node_id: int = 1,
    cluster_id: str | None = None,
    clock: ManualClock | None = None,
) -> LogDirectory:
    directory = LogDirectory(disk, clock or ManualClock(NOW_MS), path, node_id=node_id, cluster_id=cluster_id)
    directory.open_logs(lambda topic: SMALL)
    return directory


def test_logs_are_found_after_a_clean_stop_on_a_real_disk(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    directory = _open(RealDisk(), path)
    assert not directory.was_clean
    log = directory.create_log("flow", 3, TOPIC_ID, SMALL)
    for _ in range(40):
        log.append_as_leader(batch(b"x" * 50), 2)
    log.advance_log_start(5)
    directory.close(broker_epoch=17, high_watermarks={("flow", 3): 40})
    assert sorted(entry.name for entry in RealDisk().list_directory(path)) == [
        ".kafka_cleanshutdown",
        ".lock",
        "flow-3",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    again = _open(RealDisk(), path)
    assert again.previous_broker_epoch == 17
    assert again.high_watermarks == {("flow", 3): 40}
    assert (again.cluster_id, again.directory_id) == (directory.cluster_id, directory.directory_id)
    log = again.logs["flow", 3]
    assert log.topic_id == TOPIC_ID
    assert (log.log_start_offset, log.log_end_offset, log.synced_offset) == (5, 40, 40)
    assert len(read_all(log)) == 35
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    again.close(clean=False)


def test_a_stop_without_close_is_recovered_from_the_checkpoint() -> None:
    disk = MemoryDisk()
    directory = _open(disk)
    log = directory.create_log("flow", 0, TOPIC_ID, SMALL)
    log.append_as_leader(batch(b"synced"), 0)
    sync(log)
    directory.checkpoint({("flow", 0): 1})
    log.append_as_leader(batch(b"not synced"), 0)
    again = _open(disk.crash(Random(1)))
    assert not again.was_clean
    assert again.high_watermarks == {("flow", 0): 1}
    assert again.logs["flow", 0].log_end_offset >= 1
    assert read_all(again.logs["flow", 0])[0] == (0, b"synced")


def test_the_clean_shutdown_marker_is_durably_removed_before_anything_is_written() -> None:
    disk = MemoryDisk()
    _open(disk).close()
    _open(disk)
    for seed in range(10):
        assert not _open(disk.crash(Random(seed))).was_clean


def test_two_brokers_cannot_use_the_same_directory() -> None:
    disk = MemoryDisk()
    _open(disk)
    with pytest.raises(BlockingIOError):
        _open(disk)


@pytest.mark.parametrize(("node_id", "cluster_id"), [(2, None), (1, "another")])
def test_a_directory_of_another_node_or_cluster_is_rejected_and_unlocked(node_id: int, cluster_id: str | None) -> None:
    disk = MemoryDisk()
    _open(disk, cluster_id="mine").close()
    with pytest.raises(LogDirectoryMismatch, match="/data belongs to"):
        _open(disk, node_id=node_id, cluster_id=cluster_id)
    assert _open(disk, cluster_id="mine").cluster_id == "mine"


@pytest.mark.parametrize("content", [b"garbage\n", b"\xff\xfe\x00", b"version=99\nnode.id=1\ncluster.id=mine\n"])
def test_an_unreadable_identity_is_rejected_and_not_overwritten(content: bytes) -> None:
    disk = MemoryDisk()
    _open(disk, cluster_id="mine").close()
    disk.replace_file("/data/meta.properties", content)
    with pytest.raises(LogDirectoryMismatch, match=r"/data/meta\.properties is damaged, or of a version"):
        _open(disk)
    assert disk.read_file("/data/meta.properties") == content


def test_the_identity_is_kafkas_meta_properties() -> None:
    disk = MemoryDisk()
    directory = _open(disk, cluster_id="mine")
    assert checkpoint.read_properties(disk, "/data/meta.properties") == {
        "version": "1",
        "cluster.id": "mine",
        "node.id": "1",
        "directory.id": layout.format_uuid(directory.directory_id),
    }


def test_a_deleted_log_is_gone_at_once_and_its_space_after_the_delay() -> None:
    disk = MemoryDisk()
    clock = ManualClock(NOW_MS)
    directory = _open(disk, clock=clock)
    directory.create_log("flow", 0, TOPIC_ID, LogConfig(file_delete_delay_ms=100))
    directory.delete_log("flow", 0)
    assert directory.logs == {}
    (left,) = [entry.name for entry in disk.list_directory("/data") if entry.is_directory]
    assert layout.is_deleted_directory(left)
    directory.remove_deleted(NOW_MS + 99)
    assert disk.exists(f"/data/{left}")
    directory.remove_deleted(NOW_MS + 100)
    assert not disk.exists(f"/data/{left}")
    directory.create_log("flow", 0, TOPIC_ID, SMALL)


def test_deletions_that_a_stop_interrupted_are_finished() -> None:
    disk = MemoryDisk()
    directory = _open(disk)
    directory.create_log("flow", 0, TOPIC_ID, SMALL)
    directory.delete_log("flow", 0)
    directory.close()
    again = _open(disk)
    assert again.logs == {}
    again.remove_deleted(NOW_MS)
    assert [entry.name for entry in disk.list_directory("/data") if entry.is_directory] == []


def test_a_log_that_failed_makes_the_stop_unclean() -> None:
    disk = MemoryDisk()
    directory = _open(disk)
    directory.create_log("flow", 0, TOPIC_ID, SMALL).fail(OSError("the disk is gone"))
    assert directory.is_offline
    directory.close()
    assert not _open(disk).was_clean


def test_a_disk_that_fills_up_makes_the_stop_unclean_and_loses_nothing() -> None:
    disk = MemoryDisk()
    directory = _open(disk)
    log = directory.create_log("flow", 0, TOPIC_ID, SMALL)
    log.append_as_leader(batch(b"x"), 0)
    disk.fill(0)
    directory.close()
    disk.make_room()
    again = _open(disk)
    assert not again.was_clean
    assert read_all(again.logs["flow", 0]) == [(0, b"x")]


def test_other_directories_and_the_log_of_kraft_are_ignored() -> None:
    disk = MemoryDisk()
    for name in ("__cluster_metadata-0", "lost+found", "notes"):
        disk.make_directory(f"/data/{name}")
    assert _open(disk).logs == {}


@pytest.mark.parametrize("seed", range(20))
def test_the_checkpoint_of_a_deleted_log_is_never_used_for_the_next_of_its_name(seed: int) -> None:
    """Without a sync at the creation: the first one comes with the first record that is acknowledged."""
    random = Random(seed)
    disk = MemoryDisk()
    directory = _open(disk)
    log = directory.create_log("flow", 0, TOPIC_ID, SMALL)
    for _ in range(30):
        log.append_as_leader(batch(b"old"), 0)
    sync(log)
    log.advance_log_start(25)
    directory.checkpoint()
    directory.delete_log("flow", 0)
    log = directory.create_log("flow", 0, TOPIC_ID, SMALL)
    count = random.randint(1, 40)
    for _ in range(count):
        log.append_as_leader(batch(b"new"), 0)
    sync(log)
    noted_start = 0
    if random.random() < 0.5:
        noted_start = random.randint(1, count)
        log.advance_log_start(noted_start)
        directory.checkpoint()
        assert not disk.exists(f"{log.directory}/{layout.NOT_CHECKPOINTED}")
    after = disk.crash(random)
    found = _open(after).logs["flow", 0]
    assert (found.log_start_offset, found.log_end_offset) == (noted_start, count)
    assert not after.exists(f"{found.directory}/{layout.NOT_CHECKPOINTED}")


def test_a_checkpoint_begun_before_a_log_was_created_does_not_cover_it() -> None:
    disk = MemoryDisk()
    directory = _open(disk)
    directory.create_log("flow", 0, TOPIC_ID, SMALL).append_as_leader(batch(b"old"), 0)
    directory.checkpoint()
    made = directory.begin_checkpoint()
    directory.delete_log("flow", 0)
    log = directory.create_log("flow", 0, TOPIC_ID, SMALL)
    for replacement in made.replacements:
        disk.replace_file(*replacement)
    assert directory.end_checkpoint(made) == []
    assert disk.exists(f"{log.directory}/{layout.NOT_CHECKPOINTED}")
