"""DescribeLogDirs over the wire."""

from pathlib import Path

import pytest
from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import DescribeLogDirsResult
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32
from tests.broker.handlers.wire import Wire, produce

from catchment.testing.embedded import Broker


def describe(wire: Wire, topics: dict[str, list[int]] | None = None, version: int = 5) -> list[DescribeLogDirsResult]:
    asked = None
    if topics is not None:
        asked = tuple(
            DescribableLogDirTopic(topic=TopicName(name), partitions=tuple(i32(number) for number in partitions))
            for name, partitions in topics.items()
        )
    response = wire.ask(DescribeLogDirsRequest(topics=asked), version)
    assert response.error_code is ErrorCode.none
    return list(response.results)


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    return {(topic.name, p.partition_index): p.partition_size for topic in result.topics for p in topic.partitions}


@pytest.mark.parametrize("version", range(1, 6))
def test_sizes_are_those_of_the_segments_on_disk(tmp_path: Path, version: int) -> None:
    with Broker(tmp_path) as broker, Wire(broker) as wire:
        broker.create_topic("a", 2)
        produce(broker, "a", [b"x" * 1000] * 3)
        (result,) = describe(wire, version=version)
        on_disk = (tmp_path / "a-0" / f"{0:020d}.log").stat().st_size
        assert on_disk > 3000
        assert sizes(result) == {("a", 0): on_disk, ("a", 1): 0}
        assert (result.log_dir, result.error_code) == (str(tmp_path), ErrorCode.none)


def test_only_requested_partitions_of_this_broker_are_described(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 3)
    broker.create_topic("b")
    (result,) = describe(wire, {"a": [1, 9], "nowhere": [0]})
    assert list(sizes(result)) == [("a", 1)]
    assert describe(wire, {})[0].topics == ()


def test_every_directory_responses_with_what_is_usable_on_it(tmp_path: Path) -> None:
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    with Broker(tmp_path, settings={"log.dirs": ",".join(paths)}) as broker, Wire(broker) as wire:
        broker.create_topic("a", 4)
        results = describe(wire)
        assert [result.log_dir for result in results] == paths
        assert sorted(place for result in results for place in sizes(result)) == [("a", n) for n in range(4)]
        assert all(result.usable_bytes > 0 for result in results)
