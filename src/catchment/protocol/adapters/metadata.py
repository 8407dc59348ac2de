"""Metadata: version 0 requests all topics with an empty list, later ones with null.

Cluster operations (versions 8 to 10) have moved to DescribeCluster: the request's field is dropped, and the response has Kafka's
value for "not requested", which is the field's default. A topic without a name, because it was requested by an unknown id, is
possible from version 12 on; before that its name is empty.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import MetadataResponse
from kio.schema.types import TopicName

from catchment.protocol.adapters.conversion import lift, lower


def lift_request(request: Any, newest_class: type[MetadataRequest]) -> Any:
    if request.__version__ == 0:
        return lift(request, newest_class, topics=lift(request, newest_class).topics or None)
    return lift(request, newest_class)


def lower_request(request: MetadataRequest, version_class: Any) -> Any:
    if version_class.__version__ == 0:
        if request.topics == ():
            raise ValueError("Metadata version 0 cannot request no topics")
        return lower(request, version_class, topics=request.topics or ())
    if version_class.__version__ in (8, 9, 10):
        return lower(request, version_class, include_cluster_authorized_operations=False)
    return request


def lower_response(response: MetadataResponse, version_class: Any) -> Any:
    if version_class.__version__ < 12 and any(topic.name is None for topic in response.topics):
        named = (topic if topic.name is not None else replace(topic, name=TopicName("")) for topic in response.topics)
        response = replace(response, topics=tuple(named))
    return lower(response, version_class)
