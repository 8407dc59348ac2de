"""DescribeLogDirs (key 35): the size of each partition in each log directory (KIP-113).

Behaviour
    Every directory is described; null topics mean all. A requested partition that this broker does not hold is left out. A size
    is that of the partition's segments, without their indexes.
Versions
    1-5. A top-level error since 3, the sizes of the volume since 4 (KIP-827), cordoned directories since 5 (KIP-1066).
Gaps
    The total size of the volume is -1 (unknown). Partitions are never moved between directories, and no directory is cordoned.
"""

from collections.abc import Mapping

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.storage.directory import LogDirectory

_UNKNOWN = i64(-1)


@api(35, versions=(1, 5))
async def describe_log_dirs(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, number) for topic in request.topics for number in topic.partitions}
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        results=tuple(
            [await _directory(context, directory, asked) for directory in context.services.replicas.directories]
        ),
    )


async def _directory(
    context: RequestContext, directory: LogDirectory, asked: set[tuple[TopicName, i32]] | None
) -> DescribeLogDirsResult:
    topics: dict[str, dict[int, int]] = {}
    turns = Turns()
    async for (topic, number), log in turns(list(directory.logs.items())):
        if asked is None or (topic, number) in asked:
            topics.setdefault(topic, {})[number] = log.size_bytes
    usable_bytes, code = _UNKNOWN, ErrorCode.none
    try:
        usable_bytes = i64(context.services.disk.free_bytes(directory.path))
    except OSError:
        code = ErrorCode.kafka_storage_error
    return DescribeLogDirsResult(
        error_code=code,
        log_dir=directory.path,
        topics=tuple([await _topic(name, sizes, turns) async for name, sizes in turns(topics.items())]),
        usable_bytes=usable_bytes,
    )


async def _topic(name: str, sizes: Mapping[int, int], turns: Turns) -> DescribeLogDirsTopic:
    return DescribeLogDirsTopic(
        name=TopicName(name),
        partitions=tuple(
            [
                DescribeLogDirsPartition(
                    partition_index=i32(number), partition_size=i64(size), offset_lag=i64(0), is_future_key=False
                )
                async for number, size in turns(sizes.items())
            ]
        ),
    )
