"""AlterPartitionReassignments, ListPartitionReassignments and AlterReplicaLogDirs over the wire: nothing moves, and tools may ask."""

from __future__ import annotations

from pathlib import Path

import pytest
from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32
from tests.broker.handlers.test_describe_log_dirs import describe, sizes
from tests.broker.handlers.wire import Wire
from tests.compat import admin_requests
from tests.compat.admin_requests import EMPTY_TOPIC

from catchment.testing.embedded import Broker


def reassign(wire: Wire, topic: str, number: int, *replicas: int, version: int = 1) -> tuple[ErrorCode, str | None]:
    partition = ReassignablePartition(
        partition_index=i32(number), replicas=tuple(map(BrokerId, replicas)) if replicas else None
    )
    topics = (ReassignableTopic(name=TopicName(topic), partitions=(partition,)),)
    answer = wire.ask(AlterPartitionReassignmentsRequest(topics=topics), version)
    result = answer.responses[0].partitions[0]
    return result.error_code, result.error_message


@pytest.mark.parametrize("version", [0, 1])
def test_only_the_replicas_that_a_partition_has_are_accepted(broker: Broker, wire: Wire, version: int) -> None:
    broker.create_topic("a")
    assert reassign(wire, "a", 0, 1, version=version) == (ErrorCode.none, None)
    assert reassign(wire, "a", 0, version=version)[0] is ErrorCode.no_reassignment_in_progress
    code, message = reassign(wire, "a", 0, 2, version=version)
    assert code is ErrorCode.invalid_replica_assignment
    assert message == "The manual partition assignment includes broker 2, but no such broker is registered."
    assert reassign(wire, "a", 1, 1, version=version)[0] is ErrorCode.unknown_topic_or_partition
    assert reassign(wire, "b", 0, 1, version=version)[0] is ErrorCode.unknown_topic_or_partition


def test_no_partition_is_being_moved(broker: Broker, wire: Wire) -> None:
    broker.create_topic(EMPTY_TOPIC)
    for request, version in admin_requests.reassignments():
        if type(request).__name__.startswith("List"):
            assert wire.ask(request, version).topics == ()


def test_a_partition_stays_in_its_directory(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("first", "second")]
    with Broker(tmp_path, settings={"log.dirs": ",".join(paths)}) as broker, Wire(broker) as wire:
        broker.create_topic(EMPTY_TOPIC)
        (home,) = [result.log_dir for result in describe(wire) if sizes(result)]
        (other,) = set(paths) - {home}
        expected = {home: ErrorCode.none, other: ErrorCode.invalid_replica_assignment}
        for path, code in expected.items():
            _, _, move, *_ = admin_requests.log_directories(path)
            answer = wire.ask(move.request, move.version)
            assert [one.error_code for topic in answer.results for one in topic.partitions] == [code]
        assert [result.log_dir for result in describe(wire) if sizes(result)] == [home]
