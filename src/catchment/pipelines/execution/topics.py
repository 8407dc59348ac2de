"""The topics of a pipeline, created before its queries start."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from catchment.client.errors import ClientError, SettingsError, Unreachable
from catchment.pipelines.alerts.rule import log_topic, undelivered_topic
from catchment.pipelines.declaration.addresses import LARGEST_RECORD_BYTES
from catchment.pipelines.declaration.specification import Alert, StoreSink, TopicOut
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.graph import Graph
from catchment.pipelines.naming import REPLAYED_SUFFIX

_TIMEOUT_S = 30.0
_READ_S = 10.0
_AWAY: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
"""The library's own codes for brokers that do not answer; it marks only brokers' errors as retriable."""
_LARGE = {"max.message.bytes": str(LARGEST_RECORD_BYTES)}
_ANY_TIME: Final = {"message.timestamp.after.max.ms": str(2**63 - 1)}
"""The times of batches keep rising if the clock is set back, and are then ahead of it; by default brokers accept an hour of that."""
_CHANGELOG = {"cleanup.policy": "compact"}
_RETENTION: Final = "retention.ms"
_FOR_EVER: Final = "-1"
_TIMES = "message.timestamp.type"
_AS_WRITTEN = "CreateTime"


class TopicAdmin:
    """Lists, describes, creates and deletes topics."""

    def __init__(self, servers: str, kafka: Mapping[str, str]) -> None:
        self._servers = servers
        self._client = _client(servers, kafka)

    def names(self) -> set[str]:
        """The names of all topics."""
        try:
            return set(self._client.list_topics(timeout=_READ_S).topics)
        except KafkaException as cause:
            raise _explained(f"no broker answers at {self._servers}", cause) from cause

    def values(self, setting: str, topics: Iterable[str]) -> dict[str, str]:
        """The value of a setting for each of these topics."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        return _values(self._client, setting, resources, _READ_S) if resources else {}

    def make_changelog(self, topic: str) -> None:
        """Create a compacted topic with one partition, unless it exists."""
        _create(self._client, [NewTopic(topic, num_partitions=1, config=_CHANGELOG)])

    def delete(self, topic: str) -> None:
        """Delete a topic, if it exists."""
        try:
            self._client.delete_topics([topic], request_timeout=_TIMEOUT_S)[topic].result()
        except KafkaException as cause:
            if cause.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _explained(f"topic {topic} cannot be deleted", cause) from cause


def make_topics(context: RunContext, parallelism: int) -> None:
    """Create missing topics that the pipeline writes; others are left to their writers."""
    admin = _client(context.servers, context.kafka)
    there = _create(admin, wanted_topics(context.graph, parallelism).values())
    _check_times(admin, there & {boundary.topic for boundary in context.graph.topics()})


def wanted_topics(graph: Graph, parallelism: int) -> dict[str, NewTopic]:
    """Every topic that the pipeline writes to."""
    wanted = {
        boundary.topic: NewTopic(
            boundary.topic,
            num_partitions=boundary.partitions or parallelism,
            config=_LARGE | _ANY_TIME | {_TIMES: _AS_WRITTEN} | (_CHANGELOG if boundary.is_changelog else {}),
        )
        for boundary in graph.topics()
    }
    retention = _retention(graph)
    for topic in _quarantine_and_alert_topics(graph):
        wanted.setdefault(topic, NewTopic(topic, num_partitions=parallelism, config=_LARGE | _ANY_TIME | retention))
    for topic, partitions in _named(graph).items():
        wanted.setdefault(topic, NewTopic(topic, num_partitions=partitions or parallelism, config=_LARGE))
    return wanted


def retention_notes(graph: Graph, admin: TopicAdmin, there: Collection[str]) -> Iterator[str]:
    """Notes on existing topics whose retention differs from that of topics the pipeline creates."""
    wanted = _retention(graph)[_RETENTION]
    for topic, value in admin.values(
        _RETENTION, [one for one in _quarantine_and_alert_topics(graph) if one in there]
    ).items():
        if value != wanted:
            yield (
                f"topic {topic} is there and has {_RETENTION}={value}, which is left as it is: older records of it are deleted. "
                f"`catchment topic alter {topic} --set {_RETENTION}={wanted}` keeps them as the pipeline would"
            )


def _quarantine_and_alert_topics(graph: Graph) -> list[str]:
    """The topics of quarantined and late records, and of alerts: their records exist nowhere else."""
    pipeline = graph.specification.pipeline
    has_source_stage = bool(graph.source_stages or graph.table_quarantines)
    has_store = any(isinstance(one.target, StoreSink) for one in graph.sinks.values())
    kept = [graph.quarantine, f"{pipeline}{REPLAYED_SUFFIX}"] if has_source_stage or has_store else []
    kept += [graph.late] if has_source_stage else []
    alerts = graph.specification.alerts.values()
    kept += [log_topic(pipeline)] if alerts else []
    has_notifications = any(not isinstance(one, TopicOut) for alert in alerts for one in alert.to)
    kept += [undelivered_topic(pipeline)] if has_notifications else []
    return kept


def _retention(graph: Graph) -> dict[str, str]:
    """By default brokers delete records after a week."""
    retention_ms = graph.specification.retention
    return {_RETENTION: _FOR_EVER if retention_ms is None else str(retention_ms), "retention.bytes": _FOR_EVER}


def _client(servers: str, kafka: Mapping[str, str]) -> AdminClient:
    # We report brokers that are away; the library would log it twenty times a second.
    return AdminClient({"log_level": 0, "bootstrap.servers": servers, **kafka})


def _named(graph: Graph) -> dict[str, int | None]:
    """Topics that sinks and alerts write to, with the partitions that one of them asks for."""
    named: dict[str, int | None] = {}
    for sink in graph.sinks.values():
        for one in sink.target.to if isinstance(sink.target, Alert) else (sink.target,):
            if isinstance(one, TopicOut):
                named[one.topic] = named.get(one.topic) or one.partitions
    return named


def _create(admin: AdminClient, wanted: Iterable[NewTopic]) -> set[str]:
    """Create topics; returns those that existed."""
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
    """Reject boundary topics with LogAppendTime: readers separate batches by the time of records."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    for topic, kind in (_values(admin, _TIMES, resources, _TIMEOUT_S) if resources else {}).items():
        if kind != _AS_WRITTEN:
            raise SettingsError(
                f"topic {topic} has {_TIMES}={kind}, and stages that read it tell batches apart by the time of records",
                f"Set {_TIMES}={_AS_WRITTEN} on it, or name another topic, which the pipeline makes.",
            )


def _values(admin: AdminClient, setting: str, topics: list[ConfigResource], timeout_s: float) -> dict[str, str]:
    values: dict[str, str] = {}
    for resource, asked in admin.describe_configs(topics, request_timeout=timeout_s).items():
        try:
            values[resource.name] = str(asked.result()[setting].value)
        except KafkaException as cause:
            raise _explained(f"the settings of topic {resource.name} cannot be read", cause) from cause
    return values


def _explained(what: str, cause: KafkaException) -> ClientError:
    error = cause.args[0]
    kind = Unreachable if error.retriable() or error.code() in _AWAY else ClientError
    return kind(f"{what}: {error.str()}")
