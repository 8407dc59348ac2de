"""`catchment transaction`: show open transactions and their producers, and abort one that hangs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from catchment.cli.cluster.transaction_search import (
    abort_hanging,
    abort_of_id,
    describe_transactions,
    hanging_transactions,
    list_transactions,
    producers_of,
)
from catchment.cli.options import (
    DEFAULT_BOOTSTRAP_SERVERS,
    AsJson,
    BootstrapServers,
    ClientSettings,
    ClientSettingsFile,
    TimeoutSeconds,
    read_client_settings,
)
from catchment.cli.output import print_json, print_note, print_table
from catchment.cli.requests import Requests, open_requests

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

_LONGEST_TRANSACTION_S = 900
"""The default of `transaction.max.timeout.ms`: what is open for longer should have been aborted."""


@contextmanager
def _requests(
    bootstrap_servers: str, client_config: Path | None, client_settings: list[str] | None, timeout_s: float
) -> Iterator[Requests]:
    with open_requests(bootstrap_servers, read_client_settings(client_config, client_settings), timeout_s) as requests:
        yield requests


def _print(rows: list[dict[str, Any]], columns: list[str], as_json: bool) -> None:
    if as_json:
        print_json(rows)
    else:
        print_table(columns, [["-" if cell is None else cell for cell in row.values()] for row in rows])


@app.command("list")
def list_command(
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only these, such as Ongoing or PrepareCommit.")
    ] = None,
    older_than_s: Annotated[
        float | None, typer.Option("--older-than", min=0, metavar="SECONDS", help="Only those open for longer.")
    ] = None,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """List transactional ids with the state of their last transaction."""
    with _requests(bootstrap_servers, client_config, client_settings, timeout_s) as requests:
        found = list_transactions(requests, state or [], older_than_s)
    _print(found, ["transactional id", "coordinator:", "producer id:", "state"], as_json)


@app.command("describe")
def describe(
    transactional_ids: Annotated[list[str], typer.Argument(metavar="ID", help="Transactional ids.")],
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Describe the last transaction of transactional ids: state, age, and the partitions it writes to."""
    with _requests(bootstrap_servers, client_config, client_settings, timeout_s) as requests:
        found = describe_transactions(requests, transactional_ids, time.time())
    columns = ["transactional id", "state", "producer id:", "epoch:", "timeout ms:", "open for s:", "partitions"]
    if as_json:
        print_json(found)
    else:
        _print([{**one, "partitions": " ".join(one["partitions"]) or "-"} for one in found], columns, as_json=False)


@app.command("producers")
def producers(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, help="Number of the partition.")],
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Show the producers of a partition, and where their open transactions begin."""
    with _requests(bootstrap_servers, client_config, client_settings, timeout_s) as requests:
        found = producers_of(requests, topic, partition)
    columns = [
        "producer id:",
        "epoch:",
        "coordinator epoch:",
        "last sequence:",
        "last timestamp:",
        "open since offset:",
    ]
    _print(found, columns, as_json)


@app.command("hanging")
def hanging(
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="Look here only. May be repeated.", show_default="all"),
    ] = None,
    older_than_s: Annotated[
        float, typer.Option("--older-than", min=0, metavar="SECONDS", help="Only those open for longer.")
    ] = _LONGEST_TRANSACTION_S,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Find transactions that are open in a partition but unknown to every coordinator. They block read_committed consumers."""
    with _requests(bootstrap_servers, client_config, client_settings, timeout_s) as requests:
        found = hanging_transactions(requests, topics, time.time() - older_than_s)
    _print(found, ["topic", "partition:", "producer id:", "epoch:", "start offset:"], as_json)
    if found:
        print_note("`catchment transaction abort` ends one")


@app.command("abort")
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Whose transaction to abort; its producer is fenced.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Where a transaction hangs.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="The partition in which it hangs.")
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, metavar="N", help="Where it begins, as `hanging` says.")
    ] = None,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Abort the transaction of a transactional id, or one that hangs in a partition and is unknown to every coordinator."""
    location = (topic, partition, start_offset)
    if (transactional_id is None) == (location == (None, None, None)) or (
        transactional_id is None and None in location
    ):
        raise typer.BadParameter("give a transactional id, or all of --topic, --partition and --start-offset")
    with _requests(bootstrap_servers, client_config, client_settings, timeout_s) as requests:
        if topic is not None and partition is not None and start_offset is not None:
            producer_id = abort_hanging(requests, topic, partition, start_offset)
            aborted: dict[str, Any] = {"topic": topic, "partition": partition, "producer_id": producer_id}
            note = f"aborted the transaction of producer {producer_id} in {topic}-{partition}"
        else:
            abort_of_id(requests, transactional_id or "")
            aborted = {"transactional_id": transactional_id}
            note = f"{transactional_id} has no open transaction any more, and its producer is fenced"
    print_json([{**aborted, "result": "aborted"}]) if as_json else print_note(note)
