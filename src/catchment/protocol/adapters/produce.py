"""Produce: topics by name up to version 12, by id since version 13 (KIP-516)."""

from dataclasses import dataclass
from typing import Any

from kio.schema.produce.v13 import request as newest_request
from kio.schema.produce.v13 import response as newest_response
from kio.schema.types import TopicName

from catchment.protocol.adapters.conversion import lift


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProduceData(newest_request.TopicProduceData):
    """A topic to write to, by id or by name."""

    name: TopicName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProduceResponse(newest_response.TopicProduceResponse):
    """The response for one topic, by id or by name."""

    name: TopicName | None = None


def lift_request(request: Any, newest_class: type[newest_request.ProduceRequest]) -> Any:
    return lift(request, newest_class, topic_data=tuple([lift(one, TopicProduceData) for one in request.topic_data]))


def lift_response(response: Any, newest_class: type[newest_response.ProduceResponse]) -> Any:
    return lift(
        response, newest_class, responses=tuple([lift(one, TopicProduceResponse) for one in response.responses])
    )
