"""`catchment consume`: print the records of a topic, from any position, or as a member of a group."""

import contextlib
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer
from confluent_kafka import Consumer, Message, ShareConsumer
from confluent_kafka.admin import AdminClient

from catchment.cli.failure import CommandError
from catchment.cli.options import (
    DEFAULT_BOOTSTRAP_SERVERS,
    AsJson,
    BootstrapServers,
    ClientSettings,
    ClientSettingsFile,
    TimeoutSeconds,
    read_client_settings,
)
from catchment.cli.output import format_count, print_note
from catchment.cli.records.format_string import FormatStringError, compile_format
from catchment.cli.records.record_json import record_line
from catchment.cli.records.sources import Assigned, Ends, Grouped, Reader, Shared, Source
from catchment.cli.records.start_position import StartPosition
from catchment.cli.wire import client_config as base_config
from catchment.cli.wire import create_client, read_metadata, require_topic


class GroupProtocol(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


class Isolation(StrEnum):
    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"


Start = Annotated[
    str | None,
    typer.Option(
        "--from",
        "-f",
        metavar="POSITION",
        help="beginning, end, an offset, -N for the last N of each partition, an age such as 15m, @MILLISECONDS,"
        " or a time such as 2026-05-01T12:00:00Z.",
        show_default="beginning",
    ),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option(
        "--partition", "-p", metavar="N", min=0, help="Read only this partition. May be repeated.", show_default="all"
    ),
]
MaxMessages = Annotated[
    int | None, typer.Option("--max-messages", "-n", metavar="N", min=1, help="Stop after this many records.")
]
UntilEnd = Annotated[bool, typer.Option("--until-end", "-e", help="Stop at the end of the log.")]
IdleTimeoutSeconds = Annotated[
    float | None, typer.Option("--idle-timeout", metavar="SECONDS", help="Stop when nothing has come for this long.")
]
OutputFormat = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help=r"%s value, %k key, %h headers, %t topic, %p partition, %o offset, %T timestamp, %S and %K lengths.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        metavar="GROUP",
        help="Read as a member of this consumer group, from its position on, and commit.",
    ),
]
ShareGroup = Annotated[
    str | None,
    typer.Option(
        "--share-group", metavar="GROUP", help="Read as a member of this share group: each record goes to one."
    ),
]
GroupProtocolChoice = Annotated[
    GroupProtocol | None,
    typer.Option(
        "--group-protocol",
        help="The group protocol; consumer is the one of KIP-848.",
        show_default="classic",
    ),
]
CommitIntervalSeconds = Annotated[
    float,
    typer.Option("--commit-interval", min=0, metavar="SECONDS", help="How often a group's position is committed."),
]
IsolationChoice = Annotated[
    Isolation | None,
    typer.Option(
        "--isolation", help="Whether to print what open and aborted transactions wrote, too.", show_default="committed"
    ),
]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_GROUP_STARTS = {"beginning": "earliest", "earliest": "earliest", "end": "latest", "latest": "latest"}
_SHARE_BATCH = 500


@app.command("consume")
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    start: Start = None,
    partition: Partitions = None,
    max_messages: MaxMessages = None,
    until_end: UntilEnd = False,
    idle_timeout_s: IdleTimeoutSeconds = None,
    output_format: OutputFormat = r"%s\n",
    group: Group = None,
    share_group: ShareGroup = None,
    group_protocol: GroupProtocolChoice = None,
    commit_interval_s: CommitIntervalSeconds = 1.0,
    isolation: IsolationChoice = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No count at the end.")] = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Read records from a topic and print them; Ctrl-C ends it."""
    position = _position(start or "beginning")
    _check_group(group, share_group, partition, start)
    _check_share_group(share_group, start, until_end, group_protocol, isolation)
    reader = Reader(topic, record_line if as_json else _format(output_format), bootstrap_servers)
    given = read_client_settings(client_config, client_settings)
    base = base_config(bootstrap_servers, given)
    if share_group is None:
        own = _consumer_config(group, group_protocol, start or "beginning", until_end, isolation)
    else:
        own = _share_config(share_group, max_messages)
    config = {**base, **own, "error_cb": reader.note_error, **given}
    if group is None and share_group is None:
        source: Source = _assigned(topic, position, partition, config, timeout_s)
    else:
        require_topic(read_metadata(create_client(AdminClient, base), timeout_s), topic)
        if share_group is not None:
            source = Shared(create_client(ShareConsumer, config), topic)
        else:
            source = Grouped(config, topic, commit_interval_s, timeout_s)
    _read(reader, source, Ends(max_messages, until_end, idle_timeout_s), timeout_s)
    if not quiet and sys.stderr.isatty():
        print_note(f"{format_count(reader.records, 'record')} of topic {topic}")


def _read(reader: Reader, source: Source, ends: Ends, timeout_s: float) -> None:
    try:
        with reader.stopped_by_signals():
            reader.run(source, ends, timeout_s)
    except BaseException:
        # Report the first error.
        with contextlib.suppress(CommandError):
            source.close()
        raise
    source.close()


def _assigned(
    topic: str, position: StartPosition, partition: list[int] | None, config: dict[str, Any], timeout_s: float
) -> Assigned:
    consumer = create_client(Consumer, config)
    try:
        known = sorted(require_topic(read_metadata(consumer, timeout_s), topic).partitions)
        chosen = _choose(topic, known, partition)
        consumer.assign(position.resolve(consumer, topic, chosen, timeout_s))
    except BaseException:
        consumer.close()
        raise
    return Assigned(consumer, chosen)


def _check_group(group: str | None, share_group: str | None, partition: list[int] | None, start: str | None) -> None:
    """Reject options that contradict a group, which assigns partitions and has positions."""
    if group is not None and share_group is not None:
        raise typer.BadParameter("a record is read by a consumer group or by a share group: give one of the two")
    if group is None and share_group is None:
        return
    if group == "" or share_group == "":
        raise typer.BadParameter("the name of a group is not empty")
    if partition:
        raise typer.BadParameter("a group assigns the partitions", param_hint="--partition")
    if group is not None and start is not None and start not in _GROUP_STARTS:
        raise typer.BadParameter(
            "a group continues at its position; beginning and end apply only where it has none yet."
            " `catchment group reset` moves it.",
            param_hint="--from",
        )


def _check_share_group(
    share_group: str | None,
    start: str | None,
    until_end: bool,
    protocol: GroupProtocol | None,
    isolation: Isolation | None,
) -> None:
    """Reject options that are settings of the share group, the same for all its members."""
    if share_group is None:
        return
    if until_end:
        raise typer.BadParameter("a share group has no end: use --idle-timeout", param_hint="--until-end")
    if start is not None:
        raise typer.BadParameter(
            f"a share group continues at its position: `catchment group reset {share_group} --share` moves it, and"
            f" `catchment group alter {share_group} --set share.auto.offset.reset=earliest` sets where it starts",
            param_hint="--from",
        )
    if isolation is not None:
        raise typer.BadParameter(
            f"`catchment group alter {share_group} --set share.isolation.level=read_{isolation}` sets it for all members",
            param_hint="--isolation",
        )
    if protocol is not None:
        raise typer.BadParameter("a share group has a protocol of its own", param_hint="--group-protocol")


def _position(start: str) -> StartPosition:
    try:
        return StartPosition.parse(start, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from error


def _format(output_format: str) -> Callable[[Message], bytes]:
    try:
        return compile_format(output_format)
    except FormatStringError as error:
        raise typer.BadParameter(str(error), param_hint="--format") from error


def _share_config(share_group: str, max_messages: int | None) -> dict[str, Any]:
    return {
        "group.id": share_group,
        "share.acknowledgement.mode": "explicit",
        # Records that will not be printed should stay available for other members.
        "max.poll.records": min(max_messages or _SHARE_BATCH, _SHARE_BATCH),
    }


def _consumer_config(
    group: str | None, protocol: GroupProtocol | None, start: str, until_end: bool, isolation: Isolation | None
) -> dict[str, Any]:
    return {
        # librdkafka requires a group id even if no group is joined: partitions are assigned by hand, nothing is committed.
        "group.id": group or "catchment-cli",
        "group.protocol": protocol or GroupProtocol.CLASSIC,
        "isolation.level": f"read_{isolation or Isolation.COMMITTED}",
        # The position moves when a record is printed, not when it is read.
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": until_end,
        # The end is detected by an empty fetch, so a fetch should not wait long for records.
        **({"fetch.wait.max.ms": 10} if until_end else {}),
        "auto.offset.reset": "error" if group is None else _GROUP_STARTS[start],
        # With a full queue librdkafka would wait a second before the next fetch, and a pipe would run dry.
        "fetch.queue.backoff.ms": 10,
    }


def _choose(topic: str, known: list[int], wanted: list[int] | None) -> list[int]:
    missing = sorted(set(wanted or ()) - set(known))
    if missing:
        raise CommandError(
            f"topic {topic} has no partition {missing[0]}",
            f"It has {format_count(len(known), 'partition')}, counted from 0.",
        )
    return sorted(set(wanted)) if wanted else known
