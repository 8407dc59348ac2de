"""Names, checkpoints and epochs in Kafka's formats."""

from __future__ import annotations

from uuid import UUID

import pytest

from catchment.ports.memory_disk import MemoryDisk
from catchment.storage import checkpoint, layout
from catchment.storage.config import LogConfig
from catchment.storage.leader_epochs import LeaderEpochs
from catchment.storage.segments.index import OFFSET_ENTRY, SparseIndex

_ID = UUID("12345678-9abc-def0-1234-56789abcdef0")


def test_file_names_have_twenty_digits_and_parse_back() -> None:
    assert layout.file_name(42, layout.LOG) == "00000000000000000042.log"
    assert layout.parse_file_name("00000000000000000042.timeindex.swap") == (42, ".timeindex", ".swap")
    assert layout.parse_file_name("leader-epoch-checkpoint") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flow-0", ("flow", 0)),
        ("a-flow-with-dashes-12", ("a-flow-with-dashes", 12)),
        ("flow", None),
        ("flow-x", None),
        ("flow-0.0123456789abcdef0123456789abcdef-delete", None),
        ("__cluster_metadata-0", None),
    ],
)
def test_directory_names_give_topic_and_partition(name: str, expected: tuple[str, int] | None) -> None:
    assert layout.parse_partition_directory(name) == expected


def test_the_name_of_a_deleted_directory_fits_a_file_system() -> None:
    name = layout.deleted_directory("t" * 249, 99999, _ID)
    assert len(name) == 255
    assert layout.is_deleted_directory(name)


def test_partition_metadata_is_kafkas() -> None:
    data = layout.format_partition_metadata(_ID)
    assert data == b"version: 0\ntopic_id: EjRWeJq83vASNFZ4mrze8A"
    assert layout.parse_partition_metadata(data) == _ID
    with pytest.raises(ValueError, match="topic_id"):
        layout.parse_partition_metadata(b"version: 0\n")


def test_an_offset_checkpoint_is_kafkas() -> None:
    disk = MemoryDisk()
    disk.replace_file("/file", checkpoint.encode_offsets({("flow", 0): 5, ("other", 12): 1 << 40}))
    assert disk.read_file("/file") == b"0\n2\nflow 0 5\nother 12 1099511627776\n"
    assert checkpoint.read_offsets(disk, "/file") == {("flow", 0): 5, ("other", 12): 1 << 40}


@pytest.mark.parametrize(
    "damage", [b"", b"0\n", b"1\n0\n", b"0\n2\nflow 0 5\n", b"0\n1\nflow 0\n", b"x\ny\n", b"\xff\n0\n"]
)
def test_a_damaged_checkpoint_is_ignored(damage: bytes) -> None:
    disk = MemoryDisk()
    disk.replace_file("/file", damage)
    assert checkpoint.read_offsets(disk, "/file") == {}


def test_the_clean_shutdown_file_holds_the_broker_epoch() -> None:
    disk = MemoryDisk()
    assert checkpoint.read_clean_shutdown(disk, "/file") is None
    checkpoint.write_clean_shutdown(disk, "/file", 12)
    assert disk.read_file("/file") == b'{"version": 0, "brokerEpoch": 12}'
    assert checkpoint.read_clean_shutdown(disk, "/file") == 12
    for content in (b"", b"[]", b"not json"):
        disk.replace_file("/file", content)
        assert checkpoint.read_clean_shutdown(disk, "/file") == -1


def test_settings_become_a_config_by_their_kafka_names() -> None:
    config = LogConfig.from_settings(
        {
            "segment.bytes": 100,
            "cleanup.policy": ["compact", "delete"],
            "message.timestamp.type": "LogAppendTime",
            "catchment.sync.acks": False,
            "catchment.retention.messages": 7,
            "min.cleanable.dirty.ratio": 0.2,
            "follower.replication.throttled.replicas": "",
        }
    )
    assert config.segment_bytes == 100
    assert config.is_compacted
    assert config.is_deleted
    assert config.is_log_append_time
    assert not config.sync_acks
    assert config.retention_messages == 7
    assert LogConfig.from_settings({"cleanup.policy": "compact"}).cleanup_policy == {"compact"}


def _epochs(*starts: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs(MemoryDisk(), "/epochs")
    for epoch, start_offset in starts:
        epochs.assign(epoch, start_offset)
    return epochs


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (5, (5, 30)), (6, (-1, -1)), (-1, (-1, -1)), (0, (0, 5))],
)
def test_the_end_of_an_epoch_is_where_the_next_begins(asked: int, expected: tuple[int, int]) -> None:
    assert _epochs((1, 5), (2, 10), (5, 20)).end_offset(asked, 30) == expected


@pytest.mark.parametrize("asked", [-2, -1, 0, 1])
def test_a_log_without_epochs_has_the_end_of_none(asked: int) -> None:
    assert _epochs().end_offset(asked, 30) == (-1, -1)


def test_epochs_that_wrote_nothing_are_replaced() -> None:
    epochs = _epochs((1, 0), (2, 10), (3, 10), (2, 50))
    assert epochs.entries == ((1, 0), (3, 10))


def test_epochs_are_cut_at_both_ends() -> None:
    epochs = _epochs((1, 0), (2, 10), (3, 20))
    epochs.truncate_from_end(20)
    assert list(epochs.entries) == [(1, 0), (2, 10)]
    epochs.truncate_from_start(5)
    assert list(epochs.entries) == [(1, 5), (2, 10)]
    epochs.truncate_from_start(10)
    assert list(epochs.entries) == [(2, 10)]
    assert epochs.at(9) == -1
    assert epochs.at(10) == 2


def test_epochs_are_kafkas_file() -> None:
    disk = MemoryDisk()
    epochs = LeaderEpochs(disk, "/epochs")
    epochs.assign(3, 0)
    epochs.assign(4, 17)
    epochs.flush()
    assert disk.read_file("/epochs") == b"0\n2\n3 0\n4 17\n"
    again = LeaderEpochs(disk, "/epochs")
    again.load()
    assert again.entries == epochs.entries
    assert again.latest == 4


def test_an_index_that_was_cut_and_grew_again_replaces_what_the_file_held() -> None:
    disk = MemoryDisk()
    index = SparseIndex(disk, "/index", OFFSET_ENTRY, None)
    for number in range(5):
        index.append(number, number)
    index.flush()
    index.truncate_keys(2)
    for number in (10, 11, 12):
        index.append(number, number)
    assert index.flush() is not None
    assert index.flush() is None
    index.unload()
    assert list(index.entries()) == [(0, 0), (1, 1), (10, 10), (11, 11), (12, 12)]
    assert index.floor(9) == (1, 1)
    assert index.floor(-1) is None
