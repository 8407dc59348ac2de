"""Fetch: topics by name up to version 12, by id since version 13 (KIP-516); a replica id until version 14 (KIP-903)."""

from dataclasses import dataclass
from typing import Any

from kio.schema.fetch.v18 import request as newest_request
from kio.schema.fetch.v18 import response as newest_response
from kio.schema.types import TopicName

from catchment.protocol.adapters.conversion import lift, lower

_LAST_VERSION_WITH_REPLICA_ID = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic(newest_request.FetchTopic):
    """A topic to fetch, by id or by name."""

    topic: TopicName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTopic(newest_request.ForgottenTopic):
    """A topic to drop from the session, by id or by name."""

    topic: TopicName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchableTopicResponse(newest_response.FetchableTopicResponse):
    """The response for one topic, by id or by name."""

    topic: TopicName | None = None


def lift_request(request: Any, newest_class: type[newest_request.FetchRequest]) -> Any:
    forgotten = getattr(request, "forgotten_topics_data", ())
    overrides: dict[str, Any] = {
        "topics": tuple([lift(topic, FetchTopic) for topic in request.topics]),
        "forgotten_topics_data": tuple([lift(topic, ForgottenTopic) for topic in forgotten]),
    }
    if request.__version__ <= _LAST_VERSION_WITH_REPLICA_ID:
        overrides["replica_state"] = newest_request.ReplicaState(replica_id=request.replica_id)
    return lift(request, newest_class, **overrides)


def lower_request(request: newest_request.FetchRequest, version_class: Any) -> Any:
    if version_class.__version__ <= _LAST_VERSION_WITH_REPLICA_ID:
        return lower(request, version_class, replica_id=request.replica_state.replica_id)
    return lower(request, version_class)


def lift_response(response: Any, newest_class: type[newest_response.FetchResponse]) -> Any:
    responses = tuple([lift(topic, FetchableTopicResponse) for topic in response.responses])
    return lift(response, newest_class, responses=responses)
