"""The topics that a pipeline itself needs, made before its queries start."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from catchment.client.errors import ClientError, Unreachable
from catchment.pipelines.execution.workplace import Workplace
from catchment.pipelines.graph import Graph
from catchment.pipelines.quarantine import REPLAYED_SUFFIX
from catchment.pipelines.specification import Alert, TopicOut

_TIMEOUT_S = 30.0
_CHANGELOG = {"cleanup.policy": "compact"}


def make_topics(place: Workplace, parallelism: int) -> None:
    """Make those that are missing; topics that others write are left to them."""
    _create(place, wanted_topics(place.graph, parallelism).values())


def wanted_topics(graph: Graph, parallelism: int) -> dict[str, NewTopic]:
    """Every topic that the pipeline writes to."""
    pipeline = graph.specification.pipeline
    wanted = {
        boundary.topic: NewTopic(
            boundary.topic,
            num_partitions=boundary.partitions or parallelism,
            config=_CHANGELOG if boundary.is_changelog else {},
        )
        for boundary in graph.topics()
    }
    written = [graph.quarantine, f"{pipeline}{REPLAYED_SUFFIX}", graph.late] if graph.intakes else []
    written += [f"{pipeline}.alerts"] if graph.specification.alerts else []
    for topic in (*written, *_named(graph)):
        wanted.setdefault(topic, NewTopic(topic, num_partitions=parallelism))
    return wanted


def _named(graph: Graph) -> Iterable[str]:
    """Topics that sinks and alerts write to."""
    for outlet in graph.outlets.values():
        targets = outlet.target.to if isinstance(outlet.target, Alert) else (outlet.target,)
        yield from (one.topic for one in targets if isinstance(one, TopicOut))


def _create(place: Workplace, wanted: Iterable[NewTopic]) -> None:
    admin = AdminClient({"bootstrap.servers": place.servers, **place.kafka})
    for topic, made in admin.create_topics(list(wanted), request_timeout=_TIMEOUT_S).items():
        try:
            made.result(_TIMEOUT_S)
        except KafkaException as cause:
            error = cause.args[0]
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            if error.retriable():
                raise Unreachable(f"topic {topic} cannot be made: {error.str()}") from cause
            raise ClientError(f"topic {topic} cannot be made: {error.str()}") from cause
