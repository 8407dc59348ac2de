"""`catchment quarantine`: list, show and replay the records that pipelines rejected."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.cli.failure import CommandError
from catchment.cli.options import (
    DEFAULT_BOOTSTRAP_SERVERS,
    AsJson,
    BootstrapServers,
    ClientSettings,
    ClientSettingsFile,
    read_client_settings,
)
from catchment.cli.output import print_json, print_note, print_table

if TYPE_CHECKING:
    from catchment.pipelines.quarantine import Quarantined

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_SHOWN_BYTES = 60
_SHOWN_PLACES = 5
_REPAIR_TIMEOUT_S = 30.0
_ASK_TIMEOUT_S = 30.0
PipelineName = Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.")]
ErrorText = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only records whose error contains this text.")
]
Places = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="PARTITION:OFFSET",
        help="Only the record at this position in the quarantine. May be repeated.",
    ),
]


@app.command("list")
def list_command(
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """List pipelines with quarantined records, and how many there are for each reason."""
    from catchment.client.cluster import Cluster
    from catchment.pipelines.quarantine import pipelines_with_quarantine, read_quarantine, reasons

    settings = read_client_settings(client_config, client_settings)
    with Cluster(bootstrap_servers, settings) as cluster:
        names = pipelines_with_quarantine(cluster)
    for name in names:
        _warn_of_expired(name, bootstrap_servers, settings)
    rows: list[dict[str, Any]] = [
        {"pipeline": name, "stage": stage, "error": error, "records": count}
        for name in names
        for (stage, error), count in reasons(read_quarantine(name, bootstrap_servers, settings)).most_common()
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(["pipeline", "stage", "error", "records:"], [list(row.values()) for row in rows])


@app.command("show")
def show(
    pipeline: PipelineName,
    error: ErrorText = None,
    at: Places = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, help="Show at most this many records.")
    ] = 20,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Show quarantined records: where they came from, their error, and their bytes."""
    settings = read_client_settings(client_config, client_settings)
    found = _chosen(pipeline, bootstrap_servers, settings, error, at)
    _warn_of_expired(pipeline, bootstrap_servers, settings)
    rows = [_described(one) for _, one in zip(range(limit), found, strict=False)]
    if as_json:
        print_json(rows)
        return
    cells = [[row["at"], row["from"], row["stage"], row["error"], _short(row["value"])] for row in rows]
    print_table(["at", "from", "stage", "error", "value"], cells)


@app.command("replay")
def replay(
    pipeline: PipelineName,
    error: ErrorText = None,
    at: Places = None,
    repair_command: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="COMMAND",
            help="A program that repairs a value: it reads the bytes from stdin and prints the repaired ones. "
            "A record for which it fails, or prints nothing, stays where it is.",
        ),
    ] = None,
    is_run: Annotated[
        bool, typer.Option("--execute", help="Send them. Without this, only show what would be sent.")
    ] = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Send records back to the topics they came from, each at most once, as they are or repaired by a program.

    A record goes back once, however often it was quarantined. Records without an origin stay in the quarantine, and so do rows that a
    store rejected: no record of a topic corresponds to them.
    """
    from catchment.client.cluster import Cluster
    from catchment.pipelines import quarantine

    settings = read_client_settings(client_config, client_settings)
    refused: list[str] = []

    def repair(one: Quarantined) -> bytes | None:
        value = one.value if repair_command is None else _repaired(repair_command, one)
        if value is None:
            refused.append(one.place)
        return value

    _warn_of_expired(pipeline, bootstrap_servers, settings)
    with Cluster(bootstrap_servers, settings) as cluster:
        chosen = _chosen(pipeline, bootstrap_servers, settings, error, at)
        if is_run:
            done = quarantine.replay(cluster, pipeline, bootstrap_servers, chosen, repair, settings)
        else:
            before = quarantine.replayed_origins(cluster, pipeline, bootstrap_servers, settings)
            foreign: list[str] = []
            sent = sum(repair(one) is not None for one in quarantine.unsent(chosen, before, foreign))
            done = quarantine.Replayed(sent, len(before), foreign)
    sent, sent_before, without_origin = done
    if as_json:
        said = {"left": refused, "sent_before": sent_before, "without_origin": without_origin}
        print_json({"sent" if is_run else "would_be_sent": sent, **said})
        return
    verb = "sent back" if is_run else "would be sent back (add --execute to do it)"
    print_note(
        f"{sent:,} record{'' if sent == 1 else 's'} {verb}, {len(refused):,} could not be repaired, {sent_before:,} were sent before"
    )
    if without_origin:
        some = ", ".join(without_origin[:_SHOWN_PLACES])
        print_note(f"{len(without_origin):,} records have no topic to go back to, and stay where they are: {some}")


def _warn_of_expired(pipeline: str, servers: str, settings: dict[str, str]) -> None:
    """Warn of records that are gone from the quarantine and late topics, or will be."""
    from catchment.client.cluster import Cluster
    from catchment.pipelines.naming import LATE_SUFFIX, QUARANTINE_SUFFIX
    from catchment.pipelines.quarantine import expired, expired_late

    quarantine, late = f"{pipeline}{QUARANTINE_SUFFIX}", f"{pipeline}{LATE_SUFFIX}"
    with Cluster(servers, settings) as cluster:
        topics = [topic for topic in (quarantine, late) if topic in cluster.topics()]
        gone = {
            quarantine: (expired(cluster, pipeline, servers, settings), "records that were never sent back"),
            late: (expired_late(cluster, pipeline), "late records"),
        }
    retention = _retention_ms(topics, servers, settings)
    for topic in topics:
        count, what = gone[topic]
        keeping = f"`catchment topic alter {topic} --set retention.ms=-1` keeps"
        if count:
            print_note(
                f"warning: up to {count:,} {what} are gone from topic {topic}: its retention has expired, or they were deleted. "
                f"{keeping} the others for ever"
            )
        elif retention[topic] >= 0:
            print_note(
                f"warning: topic {topic} has retention.ms={retention[topic]}: what is older is deleted. {keeping} it for ever"
            )


def _retention_ms(topics: list[str], servers: str, settings: dict[str, str]) -> dict[str, int]:
    """The retention of topics; -1 keeps records for ever."""
    from confluent_kafka.admin import ConfigResource, ResourceType

    from catchment.cli.wire import open_admin, outcome

    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    # The futures complete only while the client exists.
    admin = open_admin(servers, settings)
    asked = admin.describe_configs(resources, request_timeout=_ASK_TIMEOUT_S)
    return {
        resource.name: int(outcome(found, f"topic {resource.name}")["retention.ms"].value)
        for resource, found in asked.items()
    }


def _chosen(
    pipeline: str, servers: str, settings: dict[str, str], error: str | None, at: list[str] | None
) -> Iterator[Quarantined]:
    from catchment.pipelines.quarantine import read_quarantine

    for one in read_quarantine(pipeline, servers, settings):
        if (error is None or error in one.error) and (not at or one.place in at):
            yield one


def _repaired(command: str, one: Quarantined) -> bytes | None:
    try:
        done = subprocess.run(
            shlex.split(command), input=one.value or b"", capture_output=True, timeout=_REPAIR_TIMEOUT_S, check=False
        )
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot run {command!r}: {error}") from error
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 and done.stdout else None


def _described(one: Quarantined) -> dict[str, Any]:
    facts = one.facts
    return {
        "at": one.place,
        "from": _origin(facts),
        "stage": facts.get("stage", ""),
        "error": one.error,
        "key": _text(one.key),
        "value": _text(one.value),
        "headers": {name: _text(value) for name, value in one.headers},
    }


def _origin(facts: Mapping[str, str]) -> str:
    """The origin of a record; a row that was computed for a sink has none."""
    if "sink" in facts:
        return f"sink {facts['sink']}"
    return f"{facts.get('topic', '?')}-{facts.get('partition', '?')}@{facts.get('offset', '?')}"


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", errors="backslashreplace")


def _short(text: str | None) -> str:
    if text is None:
        return "-"
    return text if len(text) <= _SHOWN_BYTES else text[: _SHOWN_BYTES - 1] + "…"
