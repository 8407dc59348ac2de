"""`catchment cluster`: what a cluster consists of."""

from typing import Any

import typer
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode

from catchment.cli.group.offsets import Cluster, open_cluster
from catchment.cli.options import (
    DEFAULT_BOOTSTRAP_SERVERS,
    AsJson,
    BootstrapServers,
    ClientSettings,
    ClientSettingsFile,
    TimeoutSeconds,
    read_client_settings,
)
from catchment.cli.output import format_count, print_json, print_table
from catchment.cli.requests import refused
from catchment.cli.topic.view import is_internal
from catchment.cli.wire import outcome, read_metadata

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def cluster() -> None:
    """Show what a cluster consists of."""


@app.command("info")
def info(
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Show the cluster id, the brokers, the controller, feature levels, and how many topics there are."""
    with open_cluster(bootstrap_servers, read_client_settings(client_config, client_settings), timeout_s) as found:
        description = _describe(found)
    if as_json:
        print_json(description)
    else:
        _print(description)


def _describe(cluster: Cluster) -> dict[str, Any]:
    described = outcome(
        cluster.admin.describe_cluster(request_timeout=cluster.timeout_s), "the cluster cannot be described"
    )
    topics = read_metadata(cluster.admin, cluster.timeout_s).topics
    controller = described.controller
    return {
        "cluster_id": described.cluster_id,
        "controller": None if controller is None else controller.id,
        "brokers": [
            {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
            for node in sorted(described.nodes, key=lambda node: node.id)
        ],
        "features": _features(cluster),
        "topics": sum(not is_internal(name) for name in topics),
        "internal_topics": sum(is_internal(name) for name in topics),
        "partitions": sum(len(topic.partitions) for name, topic in topics.items() if not is_internal(name)),
        "internal_partitions": sum(len(topic.partitions) for name, topic in topics.items() if is_internal(name)),
    }


def _features(cluster: Cluster) -> list[dict[str, Any]]:
    """The finalized features (KIP-584); a broker before Kafka 2.7 reports none."""
    answer = cluster.requests.ask(ApiVersionsRequest(client_software_name="catchment", client_software_version="cli"))
    if answer.error_code is not ErrorCode.none:
        raise refused("the features cannot be listed", answer.error_code, None)
    supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    finalized = {one.name: one.max_version_level for one in answer.finalized_features}
    return [
        {
            "feature": name,
            "level": finalized.get(name),
            "supported_min": supported.get(name, (None, None))[0],
            "supported_max": supported.get(name, (None, None))[1],
        }
        for name in sorted({*supported, *finalized})
    ]


def _print(description: dict[str, Any]) -> None:
    typer.echo(f"cluster {description['cluster_id'] or 'without an id'}")
    internal = f"{description['internal_topics']} internal with {description['internal_partitions']}"
    typer.echo(
        f"{format_count(description['topics'], 'topic')} with {format_count(description['partitions'], 'partition')}"
        f", and {internal}"
    )
    typer.echo()
    print_table(
        ["broker:", "host", "port:", "rack", "role"],
        [
            [
                broker["id"],
                broker["host"],
                broker["port"],
                broker["rack"] or "",
                "controller" if broker["id"] == description["controller"] else "",
            ]
            for broker in description["brokers"]
        ],
    )
    if description["features"]:
        typer.echo()
        print_table(
            ["feature", "level:", "supported"],
            [
                [
                    one["feature"],
                    "" if one["level"] is None else one["level"],
                    "" if one["supported_max"] is None else f"{one['supported_min']} to {one['supported_max']}",
                ]
                for one in description["features"]
            ],
        )
