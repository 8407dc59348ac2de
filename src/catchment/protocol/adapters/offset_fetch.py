"""OffsetFetch: one group up to version 7, many since version 8 (KIP-709); topics by id since version 10 (KIP-848).

Version 1 can report a group's error only at its partitions, so a handler that returns one lists the partitions as well.
"""

from dataclasses import dataclass, replace
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v10 import request as newest_request
from kio.schema.offset_fetch.v10 import response as newest_response
from kio.schema.types import GroupId, TopicName

from catchment.protocol.adapters.conversion import lift

_LAST_VERSION_WITH_ONE_GROUP = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopics(newest_request.OffsetFetchRequestTopics):
    """A topic to look up, by id or by name."""

    name: TopicName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopics(newest_response.OffsetFetchResponseTopics):
    """The response for one topic, by id or by name."""

    name: TopicName | None = None


def lift_request(request: Any, newest_class: type[newest_request.OffsetFetchRequest]) -> Any:
    groups = (request,) if request.__version__ <= _LAST_VERSION_WITH_ONE_GROUP else request.groups
    return lift(request, newest_class, groups=tuple([_lift_request_group(group) for group in groups]))


def _lift_request_group(group: Any) -> Any:
    topics = group.topics
    if topics is not None:
        topics = tuple([lift(topic, OffsetFetchRequestTopics) for topic in topics])
    return lift(group, newest_request.OffsetFetchRequestGroup, topics=topics)


def lower_request(request: newest_request.OffsetFetchRequest, version_class: Any) -> Any:
    if version_class.__version__ > _LAST_VERSION_WITH_ONE_GROUP:
        return request
    (group,) = request.groups
    return lift(request, version_class, group_id=group.group_id, topics=group.topics)


def lift_response(response: Any, newest_class: type[newest_response.OffsetFetchResponse]) -> Any:
    if response.__version__ > _LAST_VERSION_WITH_ONE_GROUP:
        groups = [_lift_response_group(group) for group in response.groups]
    else:
        # An old response does not name its group; there was only one in the request.
        groups = [_lift_response_group(response, group_id=GroupId(""))]
    return lift(response, newest_class, groups=tuple(groups))


def _lift_response_group(group: Any, **overrides: Any) -> Any:
    topics = [_lift_response_topic(topic) for topic in group.topics]
    return lift(group, newest_response.OffsetFetchResponseGroup, topics=tuple(topics), **overrides)


def _lift_response_topic(topic: Any) -> Any:
    partitions = [lift(one, newest_response.OffsetFetchResponsePartitions) for one in topic.partitions]
    return lift(topic, OffsetFetchResponseTopics, partitions=tuple(partitions))


def lower_response(response: newest_response.OffsetFetchResponse, version_class: Any) -> Any:
    if version_class.__version__ > _LAST_VERSION_WITH_ONE_GROUP:
        return response
    (group,) = response.groups
    if version_class.__version__ == 1:
        return lift(response, version_class, topics=_with_error(group))
    return lift(response, version_class, topics=group.topics, error_code=group.error_code)


def _with_error(group: newest_response.OffsetFetchResponseGroup) -> Any:
    if group.error_code is ErrorCode.none:
        return group.topics
    return tuple([replace(topic, partitions=_failed(topic, group.error_code)) for topic in group.topics])


def _failed(topic: newest_response.OffsetFetchResponseTopics, code: ErrorCode) -> Any:
    return tuple([replace(partition, error_code=code) for partition in topic.partitions])
