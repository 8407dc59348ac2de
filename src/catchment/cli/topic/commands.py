"""`catchment topic`: create, list, describe, alter, trim and delete topics."""

import sys
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Annotated, Any

import typer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType

from catchment.cli.failure import CommandError, joined
from catchment.cli.options import (
    DEFAULT_BOOTSTRAP_SERVERS,
    AsJson,
    BootstrapServers,
    ClientSettings,
    ClientSettingsFile,
    DryRun,
    TimeoutSeconds,
    Yes,
    parse_assignments,
    read_client_settings,
)
from catchment.cli.output import confirm, format_count, print_json, print_note, print_table
from catchment.cli.topic.trim import trim
from catchment.cli.topic.view import describe_topics, is_internal, print_description
from catchment.cli.wire import explain, open_admin, outcome, read_metadata, require_topic

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

_BROKER_DEFAULT = -1
# What librdkafka lets through.
_MAX_PARTITIONS = 100_000
_MAX_REPLICAS = 10_000


def _unique(names: list[str]) -> list[str]:
    """A name that is given twice is meant once."""
    return list(dict.fromkeys(names))


TopicNames = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of topics.", callback=_unique)]


@app.command("create")
def create(
    topics: TopicNames,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            metavar="N",
            min=1,
            max=_MAX_PARTITIONS,
            help="Partitions of each topic.",
            show_default="the broker's default",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            metavar="N",
            min=1,
            max=_MAX_REPLICAS,
            help="Replicas of each partition.",
            show_default="the broker's default",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="A topic setting, such as retention.ms=3600000."),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing topic is no error.")] = False,
    dry_run: DryRun = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Create topics."""
    configured = parse_assignments(settings, "--set")
    counts = (partitions or _BROKER_DEFAULT, replication_factor or _BROKER_DEFAULT)
    wanted = [NewTopic(topic, *counts, config=configured) for topic in topics]
    admin = open_admin(bootstrap_servers, read_client_settings(client_config, client_settings))
    futures = admin.create_topics(wanted, validate_only=dry_run, request_timeout=timeout_s, operation_timeout=timeout_s)
    tolerated = KafkaError.TOPIC_ALREADY_EXISTS if if_not_exists else None
    done = "valid" if dry_run else "created"
    _report(futures, "create", done, as_json, tolerated=tolerated, tolerated_word="exists")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Show topics that Kafka keeps for itself, too.")] = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """List topics with their partitions and replicas."""
    admin = open_admin(bootstrap_servers, read_client_settings(client_config, client_settings))
    metadata = read_metadata(admin, timeout_s)
    found = [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(partition.replicas) for partition in topic.partitions.values()), default=0),
        }
        for name, topic in sorted(metadata.topics.items())
        if internal or not is_internal(name)
    ]
    if as_json:
        print_json(found)
    elif not found and sys.stdout.isatty():
        print_note("no topics yet: `catchment topic create NAME` makes one")
    else:
        print_table(["topic", "partitions:", "replication factor:"], [list(topic.values()) for topic in found])


@app.command("describe")
def describe(
    topics: TopicNames,
    all_settings: Annotated[
        bool, typer.Option("--all-settings", help="Show settings with default values, too.")
    ] = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Describe topics: leaders, replicas, offsets and settings."""
    admin = open_admin(bootstrap_servers, read_client_settings(client_config, client_settings))
    metadata = read_metadata(admin, timeout_s)
    for topic in topics:
        require_topic(metadata, topic)
    descriptions = describe_topics(admin, topics, timeout_s, all_settings=all_settings)
    if as_json:
        print_json(descriptions)
    else:
        for description in descriptions:
            print_description(description)


@app.command("alter")
def alter(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")],
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            metavar="N",
            min=1,
            max=_MAX_PARTITIONS,
            help="The new number of partitions, which can only grow.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="Give a setting this value.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Return a setting to the broker's value.")
    ] = None,
    dry_run: DryRun = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Change a topic's settings or add partitions."""
    operations = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in parse_assignments(settings, "--set").items()
    ] + [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in unset or ()]
    if not operations and partitions is None:
        raise typer.BadParameter("nothing to change: give --partitions, --set or --unset")
    admin = open_admin(bootstrap_servers, read_client_settings(client_config, client_settings))
    require_topic(read_metadata(admin, timeout_s), topic)
    limits: dict[str, Any] = {"validate_only": dry_run, "request_timeout": timeout_s}
    if operations:
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=operations)
        outcome(admin.incremental_alter_configs([resource], **limits)[resource], f"cannot alter topic {topic}")
    if partitions is not None:
        futures = admin.create_partitions([NewPartitions(topic, partitions)], operation_timeout=timeout_s, **limits)
        outcome(futures[topic], f"cannot add partitions to topic {topic}")
    done = "valid" if dry_run else "altered"
    if as_json:
        print_json([{"topic": topic, "result": done}])
    else:
        print_note(f"{done} topic {topic}")


app.command("trim")(trim)


@app.command("delete")
def delete(
    topics: TopicNames,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do not fail if a topic does not exist.")] = False,
    yes: Yes = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Delete topics with all their records."""
    confirm(f"Delete {format_count(len(topics), 'topic')} and all records: {', '.join(topics)}?", yes=yes)
    admin = open_admin(bootstrap_servers, read_client_settings(client_config, client_settings))
    futures = admin.delete_topics(list(topics), request_timeout=timeout_s, operation_timeout=timeout_s)
    tolerated = KafkaError.UNKNOWN_TOPIC_OR_PART if if_exists else None
    _report(futures, "delete", "deleted", as_json, tolerated=tolerated, tolerated_word="absent")


def _report(
    futures: Mapping[str, Future[Any]],
    verb: str,
    done: str,
    as_json: bool,
    *,
    tolerated: int | None,
    tolerated_word: str,
) -> None:
    """Report the result for each topic, and fail after the last if one of them failed."""
    results: list[dict[str, str]] = []
    failures: list[CommandError] = []
    for topic, future in futures.items():
        try:
            future.result()
        except KafkaException as exception:
            error: KafkaError = exception.args[0]
            if error.code() == tolerated:
                results.append({"topic": topic, "result": tolerated_word})
            else:
                results.append({"topic": topic, "result": "failed", "error": error.name(), "message": error.str()})
                failures.append(explain(error, f"cannot {verb} topic {topic}"))
        else:
            results.append({"topic": topic, "result": done})
    if as_json:
        print_json(results)
    else:
        for result in results:
            if result["result"] != "failed":
                print_note(f"{result['result']} topic {result['topic']}")
    if failures:
        raise joined(failures)
