"""`catchment group`: list and describe consumer and share groups, show lag, and change them."""

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Annotated, Any

import typer
from kio.schema.errors import ErrorCode
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.types import GroupId

from catchment.cli.failure import joined
from catchment.cli.group.changes import GroupRefused, alter_group, delete_group, delete_topic_offsets
from catchment.cli.group.offsets import (
    SHARE,
    Cluster,
    Listed,
    ends_of,
    lag_rows,
    list_groups,
    open_cluster,
    positions,
    require_groups,
)
from catchment.cli.group.reset import reset
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
from catchment.cli.requests import GROUP, Coordinator, Requests, refused
from catchment.cli.wire import outcome

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command("reset")(reset)

GroupNames = Annotated[list[str], typer.Argument(metavar="GROUP", help="Names of groups.")]


def describe_group(cluster: Cluster, group: Listed) -> dict[str, Any]:
    """The description of a group by its coordinator, ready for JSON."""
    if group.kind == SHARE:
        return _describe_share_group(cluster.requests, group)
    futures = cluster.admin.describe_consumer_groups([group.group], request_timeout=cluster.timeout_s)
    found = outcome(futures[group.group], f"cannot describe group {group.group}")
    return {
        "group": group.group,
        "type": group.kind,
        "protocol": group.protocol,
        "state": group.state,
        "assignor": found.partition_assignor,
        "coordinator": None if found.coordinator is None else found.coordinator.id,
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": _by_topic([(one.topic, one.partition) for one in member.assignment.topic_partitions]),
            }
            for member in found.members
        ],
    }


def _describe_share_group(requests: Requests, group: Listed) -> dict[str, Any]:
    request = ShareGroupDescribeRequest(group_ids=(GroupId(group.group),), include_authorized_operations=False)
    (found,) = requests.ask(request, to=Coordinator(group.group, GROUP)).groups
    if found.error_code is not ErrorCode.none:
        raise refused(f"cannot describe share group {group.group}", found.error_code, found.error_message)
    return {
        "group": group.group,
        "type": group.kind,
        "protocol": group.protocol,
        "state": found.group_state,
        "assignor": found.assignor_name,
        "coordinator": None,
        "members": [
            {
                "member": member.member_id,
                "instance": None,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": _by_topic(
                    [
                        (one.topic_name, number)
                        for one in member.assignment.topic_partitions
                        for number in one.partitions
                    ]
                ),
            }
            for member in found.members
        ],
    }


def _by_topic(topic_partitions: list[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(topic_partitions):
        found.setdefault(topic, []).append(number)
    return found


def print_group(description: dict[str, Any]) -> None:
    members = description["members"]
    assignor = f"  assignor {description['assignor']}" if description["assignor"] else ""
    typer.echo(
        f"group {description['group']}  {description['type']}  {description['state']}{assignor}  "
        f"{format_count(len(members), 'member')}"
    )
    if members:
        print_table(
            ["member", "instance", "client", "host", "partitions"],
            [
                [
                    member["member"],
                    member["instance"] or "-",
                    member["client"],
                    member["host"],
                    " ".join(
                        f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in member["partitions"].items()
                    )
                    or "-",
                ]
                for member in members
            ],
        )
    typer.echo()


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
    """Describe groups: their members and assigned partitions."""
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
    """Show the lag of groups for each partition."""
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
    """Ctrl-C ends the command with success. A second one must not interrupt its end."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    with contextlib.suppress(KeyboardInterrupt):
        yield


def _print_lag(cluster: Cluster, groups: list[str] | None, as_json: bool) -> None:
    chosen = require_groups(cluster.requests, groups) if groups else list_groups(cluster.requests)
    found = [(listed, positions(cluster, listed)) for listed in chosen]
    rows = lag_rows(
        found,
        ends_of(cluster, {topic_partition for _, topic_partitions in found for topic_partition in topic_partitions}),
    )
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
                # The other groups are still deleted.
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
