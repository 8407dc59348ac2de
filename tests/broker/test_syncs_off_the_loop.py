"""No request waits for another's sync: the event loop never makes a blocking sync.

The real disk is watched: every blocking sync of Python goes through `os.fsync` and `os.fdatasync`. The tests make the broker do all
that it does for clients: create and delete topics, rolls, retention, compaction, deletions, transactions, groups, share groups.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from tests.broker.handlers.wire import produce
from tests.waiting import until, wait_until

from catchment.ports.disk import Replacement, SyncGroup
from catchment.ports.memory_disk import MemoryDisk, MemoryFile
from catchment.testing.embedded import Broker

_SECONDS = 30.0
_LOOP_THREAD = "catchment-broker"


class Watch:
    """Blocking syncs on the thread of the broker's loop, while it serves."""

    def __init__(self) -> None:
        self.is_on = False
        self.found: list[str] = []

    def wrap(self, sync: Callable[[int], None]) -> Callable[[int], None]:
        def watched(descriptor: int) -> None:
            if self.is_on and threading.current_thread().name == _LOOP_THREAD:
                self.found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            sync(descriptor)

        return watched


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    made = Watch()
    monkeypatch.setattr(os, "fsync", made.wrap(os.fsync))
    monkeypatch.setattr(os, "fdatasync", made.wrap(os.fdatasync))
    return made


@pytest.fixture
def broker(tmp_path: Path, watch: Watch) -> Iterator[Broker]:
    settings = {
        "log.cleaner.backoff.ms": 50,
        "log.retention.check.interval.ms": 50,
        "log.flush.offset.checkpoint.interval.ms": 50,
        "log.flush.scheduler.interval.ms": 50,
        "share.coordinator.state.topic.prune.interval.ms": 50,
    }
    with Broker(tmp_path / "data", settings=settings) as made:
        watch.is_on = True
        yield made
        watch.is_on = False


def test_the_watch_sees_a_blocking_sync(broker: Broker, watch: Watch, tmp_path: Path) -> None:
    def sync() -> None:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    broker._run_now(sync)
    assert watch.found == [str(tmp_path)]


def test_topics_are_created_and_deleted_without_a_sync_on_the_loop(
    broker: Broker, watch: Watch, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(3):
        # The topic is recreated, so the checkpoints of the old logs have to be removed.
        broker.create_topic("a", 3)
        produce(broker, "a", [b"x"] * 3)
        wait_until(
            lambda: b"a 0 3" in _content(tmp_path / "data/recovery-point-offset-checkpoint"), "no checkpoint is written"
        )
        admin.create_partitions([NewPartitions("a", 5)])["a"].result(_SECONDS)
        entry = ConfigEntry("retention.ms", "100000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "a", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(_SECONDS)
        admin.delete_records([TopicPartition("a", 0, 2)])[TopicPartition("a", 0)].result(_SECONDS)
        broker.delete_topic("a")
    assert watch.found == []


def test_rolls_retention_and_flushes_need_no_sync_on_the_loop(broker: Broker, watch: Watch, tmp_path: Path) -> None:
    segments = {"segment.bytes": 1 << 20, "retention.bytes": 1 << 20, "file.delete.delay.ms": 0, "flush.ms": 10}
    broker.create_topic("rolled", settings=segments)
    for _ in range(5):
        produce(broker, "rolled", [os.urandom(300_000)] * 4)
    directory = tmp_path / "data/rolled-0"
    wait_until(lambda: len(list(directory.glob("*.log"))) < 4, "retention removes nothing")
    wait_until(
        lambda: (directory / "leader-epoch-checkpoint").exists(), "the epochs of a finished segment stay in memory"
    )
    assert watch.found == []


def test_compaction_transactions_and_groups_need_no_sync_on_the_loop(
    broker: Broker, watch: Watch, tmp_path: Path
) -> None:
    broker.create_topic("table", settings={"cleanup.policy": "compact", "segment.ms": 10_000})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t", "linger.ms": 0})
    producer.init_transactions(_SECONDS)
    start_ms = time.time_ns() // 1_000_000 - 1_000_000
    for number in range(30):
        producer.begin_transaction()
        producer.produce("table", b"v", key=b"k", partition=0, timestamp=start_ms + 5_000 * number)
        if number % 3:
            producer.commit_transaction(_SECONDS)
        else:
            producer.abort_transaction(_SECONDS)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["table"])
    wait_until(lambda: consumer.poll(0.1) is not None, "nothing arrives")
    consumer.commit(asynchronous=False)
    consumer.close()
    cleaned = tmp_path / "data/cleaner-offset-checkpoint"
    wait_until(lambda: b"table 0" in _content(cleaned), "the topic is not compacted")
    assert watch.found == []


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


class HeldDisk(MemoryDisk):
    """A disk on which awaitable syncs wait while it is held, and blocking syncs fail."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = False
        self.waiting = 0
        self.is_serving = False
        self._is_awaited = False

    async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
        await self._hold()
        self._is_awaited = True
        try:
            return await super().sync_groups(groups)
        finally:
            self._is_awaited = False

    async def replace_files(self, replacements: Sequence[Replacement]) -> None:
        await self._hold()
        self._is_awaited = True
        try:
            await super().replace_files(replacements)
        finally:
            self._is_awaited = False

    async def _hold(self) -> None:
        self.waiting += 1
        await until(lambda: not self.is_held)
        self.waiting -= 1

    def sync_directory(self, path: str) -> None:
        self._check(path)
        super().sync_directory(path)

    def replace_file(self, path: str, data: bytes) -> None:
        self._check(path)
        super().replace_file(path, data)

    def open_file(self, path: str) -> MemoryFile:
        disk = self

        class Checked(MemoryFile):
            def sync(self) -> None:
                disk._check(self.path)
                super().sync()

        made = super().open_file(path)
        return Checked(self, made._node, path)

    def _check(self, path: str) -> None:
        assert self._is_awaited or not self.is_serving, f"a sync of {path} blocks the loop"


def _act_create(broker: Broker) -> None:
    broker.create_topic("made")


def _act_delete(broker: Broker) -> None:
    broker.delete_topic("doomed")


def _act_produce(broker: Broker) -> None:
    produce(broker, "doomed", [b"x"])


def _act_delete_records(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_records([TopicPartition("doomed", 0, 1)])[TopicPartition("doomed", 0)].result(_SECONDS)


@pytest.mark.parametrize("act", [_act_create, _act_delete, _act_produce, _act_delete_records])
def test_other_clients_are_served_during_a_slow_sync(act: Callable[[Broker], None]) -> None:
    broker = Broker()
    disk = broker._disk = HeldDisk()
    with broker:
        broker.create_topic("quick", settings={"catchment.sync.acks": False})
        broker.create_topic("doomed")
        produce(broker, "quick", [b"before"])
        produce(broker, "doomed", [b"before"])
        # The first consumer creates the topic of the groups' offsets.
        assert _values(broker, 1) == [b"before"]
        disk.is_serving = True
        disk.is_held = True
        acting = threading.Thread(target=act, args=[broker])
        acting.start()
        try:
            wait_until(lambda: disk.waiting > 0, "nothing is synced")
            produce(broker, "quick", [b"meanwhile"])
            assert _values(broker, 2) == [b"before", b"meanwhile"]
            assert acting.is_alive()
        finally:
            disk.is_held = False
            acting.join(_SECONDS)
        assert not acting.is_alive()
        disk.is_serving = False


def _values(broker: Broker, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("quick", 0, 0)])
    found = []
    for _ in range(count):
        message = consumer.poll(_SECONDS)
        assert message is not None
        found.append(message.value())
    consumer.close()
    return found
