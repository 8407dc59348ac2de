"""DeleteTopics: up to version 5 a list of names, since version 6 names or ids (KIP-516)."""

from __future__ import annotations

from typing import Any

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from catchment.protocol.adapters.conversion import lift

_LAST_VERSION_WITH_NAMES = 5


def lift_request(request: Any, newest_class: type[DeleteTopicsRequest]) -> Any:
    if request.__version__ > _LAST_VERSION_WITH_NAMES:
        return lift(request, newest_class)
    topics = tuple([DeleteTopicState(name=name, topic_id=None) for name in request.topic_names])
    return lift(request, newest_class, topics=topics)


def lower_request(request: DeleteTopicsRequest, version_class: Any) -> Any:
    if version_class.__version__ > _LAST_VERSION_WITH_NAMES:
        return request
    return lift(request, version_class, topic_names=tuple([topic.name for topic in request.topics]))
