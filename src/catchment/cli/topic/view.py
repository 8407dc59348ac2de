"""What `catchment topic describe` shows: one topic's partitions with their offsets, and its settings."""

from collections.abc import Sequence
from typing import Any

import typer
from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, OffsetSpec, ResourceType

from catchment.cli.output import format_count, print_table
from catchment.cli.wire import outcome


def is_internal(topic: str) -> bool:
    """Whether a topic is internal: the names of Kafka's internal topics, and those of Confluent's tools, start with an underscore."""
    return topic.startswith("__")


def describe_topics(
    admin: AdminClient, topics: Sequence[str], timeout_s: float, *, all_settings: bool
) -> list[dict[str, Any]]:
    """The descriptions of these topics, ready for JSON."""
    described = admin.describe_topics(TopicCollection(list(topics)), request_timeout=timeout_s)
    configured = admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, topic) for topic in topics], request_timeout=timeout_s
    )
    settings = {resource.name: outcome(future, f"topic {resource.name}") for resource, future in configured.items()}
    return [
        _describe(admin, outcome(described[topic], f"topic {topic}"), settings[topic], timeout_s, all_settings)
        for topic in topics
    ]


def _describe(
    admin: AdminClient, topic: Any, settings: dict[str, Any], timeout_s: float, all_settings: bool
) -> dict[str, Any]:
    topic_partitions = [TopicPartition(topic.name, partition.id) for partition in topic.partitions]
    starts = list_offsets(admin, topic_partitions, OffsetSpec.earliest(), timeout_s)
    ends = list_offsets(admin, topic_partitions, OffsetSpec.latest(), timeout_s)
    return {
        "topic": topic.name,
        "id": str(topic.topic_id).replace("+", "-").replace("/", "_"),
        "internal": topic.is_internal,
        "partitions": [
            {
                "partition": partition.id,
                "leader": partition.leader.id if partition.leader else None,
                "replicas": [node.id for node in partition.replicas],
                "isr": [node.id for node in partition.isr],
                "start_offset": starts[partition.id],
                "end_offset": ends[partition.id],
            }
            for partition in topic.partitions
        ],
        "settings": [
            {"name": name, "value": entry.value, "source": ConfigSource(entry.source).name}
            for name, entry in sorted(settings.items())
            if all_settings or ConfigSource(entry.source) is not ConfigSource.DEFAULT_CONFIG
        ],
    }


def list_offsets(
    admin: AdminClient, topic_partitions: list[TopicPartition], spec: Any, timeout_s: float
) -> dict[int, int]:
    """An offset of each partition, the ends being those of all records, committed or not."""
    futures = admin.list_offsets(
        dict.fromkeys(topic_partitions, spec),
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=timeout_s,
    )
    return {
        topic_partition.partition: outcome(
            future, f"cannot read offsets of {topic_partition.topic}-{topic_partition.partition}"
        ).offset
        for topic_partition, future in futures.items()
    }


def print_description(description: dict[str, Any]) -> None:
    partitions = description["partitions"]
    records = sum(partition["end_offset"] - partition["start_offset"] for partition in partitions)
    typer.echo(
        f"topic {description['topic']}  id {description['id']}  {format_count(len(partitions), 'partition')}  "
        f"{format_count(records, 'offset')} kept"
    )
    print_table(
        ["partition:", "leader:", "replicas", "isr", "start:", "end:"],
        [
            [
                partition["partition"],
                "none" if partition["leader"] is None else partition["leader"],
                ",".join(map(str, partition["replicas"])),
                ",".join(map(str, partition["isr"])),
                partition["start_offset"],
                partition["end_offset"],
            ]
            for partition in partitions
        ],
    )
    if description["settings"]:
        typer.echo()
        print_table(
            ["setting", "value", "source"],
            [[setting["name"], setting["value"], setting["source"].lower()] for setting in description["settings"]],
        )
    typer.echo()
