"""OffsetCommit: topics by name up to version 9, by id since version 10 (KIP-848).

The retention time of versions 2 to 4 is dropped: Kafka has ignored it since offsets expire with their group (KIP-211).
"""

from dataclasses import dataclass
from typing import Any

from kio.schema.offset_commit.v10 import request as newest_request
from kio.schema.offset_commit.v10 import response as newest_response
from kio.schema.types import TopicName

from catchment.protocol.adapters.conversion import lift


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic(newest_request.OffsetCommitRequestTopic):
    """A topic to commit to, by id or by name."""

    name: TopicName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic(newest_response.OffsetCommitResponseTopic):
    """The response for one topic, by id or by name."""

    name: TopicName | None = None


def lift_request(request: Any, newest_class: type[newest_request.OffsetCommitRequest]) -> Any:
    return lift(request, newest_class, topics=tuple([lift(one, OffsetCommitRequestTopic) for one in request.topics]))


def lift_response(response: Any, newest_class: type[newest_response.OffsetCommitResponse]) -> Any:
    return lift(response, newest_class, topics=tuple([lift(one, OffsetCommitResponseTopic) for one in response.topics]))
