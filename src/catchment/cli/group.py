"""`catchment group`: see where consumer groups and share groups stand, and move, alter or delete them."""

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Annotated

import typer

from catchment.cli.failure import joined
from catchment.cli.group_changes import GroupRefused, alter_group, delete_group, delete_topic_offsets
from catchment.cli.group_offsets import (
    Cluster,
    Listed,
    ends_of,
    lag_rows,
    list_groups,
    open_cluster,
    positions,
    require_groups,
)
from catchment.cli.group_reset_command import reset
from catchment.cli.group_view import describe_group, print_group
from catchment.cli.options import (
    DEFAULT_BOOTSTRAP_SERVERS,
    AsJson,
    BootstrapServers,
    ClientSettings,
    ClientSettingsFile,
    TimeoutSeconds,
    Yes,
    parse_assignments,
    read_client_settings,
)
from catchment.cli.output import confirm, format_count, print_json, print_note, print_table

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command("reset")(reset)

GroupNames = Annotated[list[str], typer.Argument(metavar="GROUP", help="Names of groups.")]


@app.command("list")
def list_command(
    kind: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only these: classic, consumer, share.")
    ] = None,
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only these, such as Stable or Empty.")
    ] = None,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """List groups of every type."""
    kinds, states = {one.lower() for one in kind or ()}, {one.lower() for one in state or ()}
    with open_cluster(bootstrap_servers, read_client_settings(client_config, client_settings), timeout_s) as cluster:
        found = [
            listed
            for listed in list_groups(cluster.requests)
            if (not kinds or listed.kind in kinds) and (not states or listed.state.lower() in states)
        ]
    if as_json:
        print_json(
            [{"group": one.group, "type": one.kind, "protocol": one.protocol, "state": one.state} for one in found]
        )
    else:
        print_table(["group", "type", "protocol", "state"], found)


@app.command("describe")
def describe(
    groups: GroupNames,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Describe groups: their members, and which partitions each has."""
    with open_cluster(bootstrap_servers, read_client_settings(client_config, client_settings), timeout_s) as cluster:
        found = [describe_group(cluster, listed) for listed in require_groups(cluster.requests, groups)]
    if as_json:
        print_json(found)
    else:
        for description in found:
            print_group(description)


@app.command("lag")
def lag(
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP", help="Names of groups.", show_default="all")
    ] = None,
    watch_s: Annotated[
        float | None,
        typer.Option("--watch", min=0.1, metavar="SECONDS", help="Look again at this interval, until Ctrl-C."),
    ] = None,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Show how far groups are behind, partition by partition."""
    settings = read_client_settings(client_config, client_settings)
    with _ended_by_interrupt() if watch_s is not None else contextlib.nullcontext():
        while True:
            with open_cluster(bootstrap_servers, settings, timeout_s) as cluster:
                _print_lag(cluster, groups, as_json)
            if watch_s is None:
                return
            sys.stdout.flush()
            time.sleep(watch_s)


@contextlib.contextmanager
def _ended_by_interrupt() -> Iterator[None]:
    """Ctrl-C is the way out and no failure. Pressed twice, it must not break into the end of the command."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    with contextlib.suppress(KeyboardInterrupt):
        yield


def _print_lag(cluster: Cluster, groups: list[str] | None, as_json: bool) -> None:
    chosen = require_groups(cluster.requests, groups) if groups else list_groups(cluster.requests)
    found = [(listed, positions(cluster, listed)) for listed in chosen]
    rows = lag_rows(found, ends_of(cluster, {place for _, places in found for place in places}))
    if as_json:
        print_json(rows)
        return
    print_table(
        ["group", "topic", "partition:", "position:", "end:", "lag:"],
        [
            list((row if row["end"] is not None else {**row, "end": "-", "lag": "topic is gone"}).values())
            for row in rows
        ],
    )
    total = sum(row["lag"] or 0 for row in rows)
    print_note(f"{format_count(total, 'record')} behind in {format_count(len(rows), 'partition')}")


@app.command("alter")
def alter(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group, which need not exist yet.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="KEY=VALUE", help="Give a setting this value: share.auto.offset.reset=earliest."
        ),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Return a setting to the broker's value.")
    ] = None,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Change the settings of a group."""
    values = parse_assignments(settings, "--set")
    if not values and not unset:
        raise typer.BadParameter("nothing to change: give --set or --unset")
    with open_cluster(bootstrap_servers, read_client_settings(client_config, client_settings), timeout_s) as cluster:
        alter_group(cluster, group, values, unset or [])
    if as_json:
        print_json([{"group": group, "result": "altered"}])
    else:
        print_note(f"altered group {group}")


@app.command("delete")
def delete(
    groups: GroupNames,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC", help="Delete only what the groups have committed of this topic."
        ),
    ] = None,
    yes: Yes = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Delete groups without members, with all their offsets, or only their offsets in one topic."""
    where = "" if topic is None else f" in topic {topic}"
    what = "all offsets" if topic is None else "offsets"
    confirm(f"Delete {what}{where} of {format_count(len(groups), 'group')}: {', '.join(groups)}?", yes=yes)
    results: list[dict[str, str]] = []
    failures: list[GroupRefused] = []
    with open_cluster(bootstrap_servers, read_client_settings(client_config, client_settings), timeout_s) as cluster:
        for listed in require_groups(cluster.requests, groups):
            try:
                _delete(cluster, listed, topic)
            except GroupRefused as refusal:
                # It does not keep the others from going.
                failures.append(refusal)
                results.append({"group": listed.group, "result": "failed", "message": refusal.message})
            else:
                results.append({"group": listed.group, "result": "deleted"})
                if not as_json:
                    print_note(f"deleted {'group' if topic is None else 'positions of group'} {listed.group}{where}")
    if as_json:
        print_json(results)
    if failures:
        raise joined(failures)


def _delete(cluster: Cluster, listed: Listed, topic: str | None) -> None:
    if topic is None:
        delete_group(cluster.requests, listed)
    else:
        delete_topic_offsets(cluster, listed, topic)
