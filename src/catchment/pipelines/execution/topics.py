"""The topics that a pipeline itself needs, made before its queries start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from catchment.client.errors import ClientError, SettingsError, Unreachable
from catchment.pipelines.alerts.rule import log_topic, undelivered_topic
from catchment.pipelines.brokers import LARGEST_RECORD_BYTES
from catchment.pipelines.execution.workplace import Workplace
from catchment.pipelines.graph import Graph
from catchment.pipelines.naming import REPLAYED_SUFFIX
from catchment.pipelines.specification import Alert, StoreSink, TopicOut

_TIMEOUT_S = 30.0
_LOOK_S = 10.0
_AWAY: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
"""What the library itself says of brokers that do not answer; it takes only their own answers for retriable."""
_LARGE = {"max.message.bytes": str(LARGEST_RECORD_BYTES)}
_CHANGELOG = {"cleanup.policy": "compact"}
_TIMES = "message.timestamp.type"
_AS_WRITTEN = "CreateTime"


class TopicAdmin:
    """The topics of some brokers, seen and deleted."""

    def __init__(self, servers: str, kafka: Mapping[str, str]) -> None:
        self._servers = servers
        self._client = _client(servers, kafka)

    def names(self) -> set[str]:
        """All that there are."""
        try:
            return set(self._client.list_topics(timeout=_LOOK_S).topics)
        except KafkaException as cause:
            raise _explained(f"no broker answers at {self._servers}", cause) from cause

    def delete(self, topic: str) -> None:
        """Delete one; no harm is done if it is gone."""
        try:
            self._client.delete_topics([topic], request_timeout=_TIMEOUT_S)[topic].result()
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _explained(f"topic {topic} cannot be deleted", cause) from cause


def make_topics(place: Workplace, parallelism: int) -> None:
    """Make those that are missing; topics that others write are left to them."""
    admin = _client(place.servers, place.kafka)
    there = _create(admin, wanted_topics(place.graph, parallelism).values())
    _check_times(admin, there & {boundary.topic for boundary in place.graph.topics()})


def wanted_topics(graph: Graph, parallelism: int) -> dict[str, NewTopic]:
    """Every topic that the pipeline writes to."""
    pipeline = graph.specification.pipeline
    wanted = {
        boundary.topic: NewTopic(
            boundary.topic,
            num_partitions=boundary.partitions or parallelism,
            config=_LARGE | {_TIMES: _AS_WRITTEN} | (_CHANGELOG if boundary.is_changelog else {}),
        )
        for boundary in graph.topics()
    }
    has_intake = bool(graph.intakes or graph.table_intakes)
    has_store = any(isinstance(one.target, StoreSink) for one in graph.outlets.values())
    written = [graph.quarantine, f"{pipeline}{REPLAYED_SUFFIX}"] if has_intake or has_store else []
    written += [graph.late] if has_intake else []
    alerts = graph.specification.alerts.values()
    written += [log_topic(pipeline)] if alerts else []
    tells_people = any(not isinstance(one, TopicOut) for alert in alerts for one in alert.to)
    written += [undelivered_topic(pipeline)] if tells_people else []
    for topic, partitions in (dict.fromkeys(written) | _named(graph)).items():
        wanted.setdefault(topic, NewTopic(topic, num_partitions=partitions or parallelism, config=_LARGE))
    return wanted


def _client(servers: str, kafka: Mapping[str, str]) -> AdminClient:
    # Brokers that are away are told of by us; the library would say it twenty times a second.
    return AdminClient({"log_level": 0, "bootstrap.servers": servers, **kafka})


def _named(graph: Graph) -> dict[str, int | None]:
    """Topics that sinks and alerts write to, with the partitions that one of them asks for."""
    named: dict[str, int | None] = {}
    for outlet in graph.outlets.values():
        for one in outlet.target.to if isinstance(outlet.target, Alert) else (outlet.target,):
            if isinstance(one, TopicOut):
                named[one.topic] = named.get(one.topic) or one.partitions
    return named


def _create(admin: AdminClient, wanted: Iterable[NewTopic]) -> set[str]:
    """Make topics; those that were there before."""
    there: set[str] = set()
    for topic, made in admin.create_topics(list(wanted), request_timeout=_TIMEOUT_S).items():
        try:
            made.result()
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _explained(f"topic {topic} cannot be made", cause) from cause
            there.add(topic)
    return there


def _check_times(admin: AdminClient, topics: Iterable[str]) -> None:
    """Refuse topics between queries whose records the brokers give another time: readers tell batches apart by it."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    described = admin.describe_configs(resources, request_timeout=_TIMEOUT_S) if resources else {}
    for resource, asked in described.items():
        try:
            kind = asked.result()[_TIMES].value
        except KafkaException as cause:
            raise _explained(f"the settings of topic {resource.name} cannot be read", cause) from cause
        if kind != _AS_WRITTEN:
            raise SettingsError(
                f"topic {resource.name} has {_TIMES}={kind}, and stages that read it tell batches apart by the time of records",
                f"Set {_TIMES}={_AS_WRITTEN} on it, or name another topic, which the pipeline makes.",
            )


def _explained(what: str, cause: KafkaException) -> ClientError:
    error = cause.args[0]
    kind = Unreachable if error.retriable() or error.code() in _AWAY else ClientError
    return kind(f"{what}: {error.str()}")
