"""Kafka's DumpLogSegments reads what the share-state coordinator wrote, and finds in it what was asked for."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from tests.compat.java_tool import java_tool, require_java

from catchment.broker.server import BrokerServer
from catchment.cluster.new_topic import NewTopic
from catchment.coordination.share_state.batches import ACKNOWLEDGED, ARCHIVED, AVAILABLE, NO_START, StateBatch
from catchment.settings.broker import BrokerSettings
from catchment.storage.layout import format_uuid


async def _write_states(directory: Path) -> str:
    """One group's life with one partition, of which every third record is a snapshot; the topic's id as Kafka writes it."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(directory),
        "share.coordinator.snapshot.update.records.per.snapshot": "2",
        "share.coordinator.state.topic.num.partitions": "1",
    }
    server = BrokerServer(BrokerSettings(settings))
    await server.start()
    try:
        topic = await server.services.controller.create_topic(NewTopic("flow", 2))
        states = server.services.share_state
        await states.initialize("readers", topic.id, 1, 5, NO_START)
        await states.read("readers", topic.id, 1, 3)
        batches = [StateBatch(10, 14, ACKNOWLEDGED, 1), StateBatch(15, 19, AVAILABLE, 2)]
        await states.write("readers", topic.id, 1, 5, 3, 10, batches, 5)
        await states.write("readers", topic.id, 1, 5, 3, 12, [StateBatch(15, 15, ARCHIVED, 3)], 4)
        await states.delete("readers", topic.id, 1)
        return format_uuid(topic.id)
    finally:
        await server.close()


def _decoded(line: str) -> tuple[Any, Any]:
    key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
    value: Any = None if payload == "<DELETE>" else json.loads(payload)["data"]
    return json.loads(key), value


def test_kafkas_decoder_reads_every_snapshot_and_update(tmp_path: Path) -> None:
    require_java()
    topic_id = asyncio.run(_write_states(tmp_path))
    (log,) = (tmp_path / "__share_group_state-0").glob("*.log")
    output = java_tool("DumpLogSegments", "--share-group-state-decoder", "--files", str(log), with_errors=True).decode()
    assert not re.search(r"mismatch|corrupt|exception|error", output, re.IGNORECASE), output
    records = [_decoded(line) for line in output.splitlines() if " key: " in line]
    assert len(records) == 5, output
    assert [int(key["type"]) for key, _ in records] == [0, 1, 1, 0, 0]
    for key, _ in records:
        assert key["data"] == {"groupId": "readers", "topicId": topic_id, "partition": 1}
    first, epoch_noted, updated, snapshot, deleted = [value for _, value in records]
    assert (first["stateEpoch"], first["leaderEpoch"], first["startOffset"]) == (5, 0, -1)
    assert epoch_noted["leaderEpoch"] == 3
    assert (updated["startOffset"], updated["deliveryCompleteCount"]) == (10, 5)
    assert (snapshot["snapshotEpoch"], snapshot["stateEpoch"], snapshot["leaderEpoch"]) == (1, 5, 3)
    assert (snapshot["startOffset"], snapshot["deliveryCompleteCount"]) == (12, 4)
    assert [
        (one["firstOffset"], one["lastOffset"], one["deliveryState"], one["deliveryCount"])
        for one in snapshot["stateBatches"]
    ] == [(12, 14, ACKNOWLEDGED, 1), (15, 15, ARCHIVED, 3), (16, 19, AVAILABLE, 2)]
    assert deleted is None
