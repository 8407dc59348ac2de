"""AlterReplicaLogDirs (key 34): move partitions to other log directories of this broker (KIP-113).

Behaviour
    A move to the directory that already holds the partition succeeds: tools confirm a plan this way. A path that is not exactly one
    of `log.dirs` gets LOG_DIR_NOT_FOUND. If a request has several directories for one partition, the last one applies.
Versions
    1-2. Version 2 is the first flexible one.
Gaps
    Partitions are not moved: another directory of `log.dirs` gets INVALID_REPLICA_ASSIGNMENT, and the broker logs the reason.
"""

import logging
from collections.abc import Mapping

from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.storage.directory import LogDirectory

_logger = logging.getLogger(__name__)
_NOT_MOVED = ErrorCode.invalid_replica_assignment


@api(34, versions=(1, 2))
async def alter_replica_log_dirs(
    context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    wanted: dict[TopicName, dict[i32, str]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, directory.path))
    directories = {directory.path: directory for directory in context.services.replicas.directories}
    turns = Turns()
    results = [
        AlterReplicaLogDirTopicResult(
            topic_name=topic,
            partitions=tuple(
                [
                    AlterReplicaLogDirPartitionResult(
                        partition_index=number, error_code=_moved(context, directories, topic, number, path)
                    )
                    async for number, path in turns(partitions.items())
                ]
            ),
        )
        async for topic, partitions in turns(wanted.items())
    ]
    not_moved = [topic.topic_name for topic in results if any(one.error_code is _NOT_MOVED for one in topic.partitions)]
    if not_moved:
        # The response has no field for a message.
        _logger.warning(
            "partitions of %s and %d other topics were not moved: Catchment does not move partitions between log directories",
            not_moved[0],
            len(not_moved) - 1,
        )
    return AlterReplicaLogDirsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _moved(
    context: RequestContext, directories: Mapping[str, LogDirectory], topic: str, number: int, path: str
) -> ErrorCode:
    if path not in directories:
        return ErrorCode.log_dir_not_found
    if context.image.partition(topic, number) is None:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.none if (topic, number) in directories[path].logs else _NOT_MOVED
