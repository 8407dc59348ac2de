"""`catchment group reset`: reset the offsets of a group without members, or show the plan."""

import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from confluent_kafka.admin import OffsetSpec

from catchment.cli.failure import CommandError
from catchment.cli.group.changes import NEW, Move, move_group, parse_topics, plan, read_csv, require_empty, to_csv
from catchment.cli.group.offsets import SHARE, Cluster, Listed, list_groups, offsets_at, open_cluster, positions
from catchment.cli.options import (
    DEFAULT_BOOTSTRAP_SERVERS,
    AsJson,
    BootstrapServers,
    ClientSettings,
    ClientSettingsFile,
    TimeoutSeconds,
    read_client_settings,
)
from catchment.cli.output import format_count, print_json, print_note, print_table
from catchment.cli.records.start_position import StartPosition
from catchment.cli.wire import read_metadata, require_topic
from catchment.client.topic_metadata import TopicPartition


class Aim(NamedTuple):
    """Where to move to: exactly one of these is set."""

    earliest: bool
    latest: bool
    time_ms: int | None
    by: int | None
    offset: int | None
    filed: dict[TopicPartition, int] | None


def reset(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group, which need not exist yet.")],
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:PARTITIONS]",
            help="What to move, such as orders or orders:0,2. May be repeated.",
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Move all that the group has a position in.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the start of the log.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of the log.")] = False,
    to_time: Annotated[
        str | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            help="To the first record from then on: 2026-05-01T12:00:00Z, @MILLISECONDS, or an age such as 15m.",
        ),
    ] = None,
    by: Annotated[
        int | None, typer.Option("--by", metavar="N", help="By this many records; a negative number moves back.")
    ] = None,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, metavar="N", help="To this offset.")] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="To the offsets in a file: topic,partition,offset."),
    ] = None,
    share: Annotated[bool, typer.Option("--share", help="A group that does not exist yet is a share group.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this, the plan is only shown.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the plan as --from-file reads it.")] = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Reset the offsets of a group without members. Without --execute, only show the plan."""
    if sum([to_earliest, to_latest, *(one is not None for one in (to_time, by, to_offset, from_file))]) != 1:
        raise typer.BadParameter(
            "give exactly one of --to-earliest, --to-latest, --to-time, --by, --to-offset and --from-file"
        )
    if sum([bool(topics), all_topics, from_file is not None]) != 1:
        raise typer.BadParameter("give either --topic or --all-topics, and neither with --from-file")
    time_ms = None if to_time is None else _time_ms(to_time)
    filed = None if from_file is None else read_csv(from_file, group)
    aim = Aim(to_earliest, to_latest, time_ms, by, to_offset, filed)
    chosen = _topics(topics)
    with open_cluster(bootstrap_servers, read_client_settings(client_config, client_settings), timeout_s) as cluster:
        listed = _known_or_new(cluster, group, share)
        found = {} if listed.state == NEW else positions(cluster, listed)
        current = {topic_partition: position.offset for topic_partition, position in found.items()}
        moves = _plan(cluster, _places(cluster, chosen, current, filed), current, aim)
        if execute:
            require_empty(listed)
            move_group(cluster, listed, moves)
    _print_moves(moves, execute, as_csv, as_json)


def _known_or_new(cluster: Cluster, group: str, is_share: bool) -> Listed:
    known = {listed.group: listed for listed in list_groups(cluster.requests)}
    return known.get(group, Listed(group, SHARE if is_share else "classic", "", NEW))


def _topics(texts: list[str] | None) -> dict[str, list[int] | None]:
    try:
        return parse_topics(texts or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--topic") from error


def _time_ms(text: str) -> int:
    try:
        moment = StartPosition.parse(text, time.time_ns() // 1_000_000).timestamp_ms
    except ValueError:
        moment = None
    if moment is None:
        raise typer.BadParameter(
            f"{text!r} is no time: write 2026-05-01T12:00:00Z, @MILLISECONDS, or an age such as 15m",
            param_hint="--to-time",
        )
    return moment


def _places(
    cluster: Cluster,
    chosen: dict[str, list[int] | None],
    current: dict[TopicPartition, int],
    filed: dict[TopicPartition, int] | None,
) -> list[TopicPartition]:
    """Every partition to move, each known to exist."""
    metadata = read_metadata(cluster.admin, cluster.timeout_s)
    if chosen:
        wanted = [
            (topic, number)
            for topic, numbers in chosen.items()
            for number in (sorted(require_topic(metadata, topic).partitions) if numbers is None else numbers)
        ]
    else:
        wanted = sorted(current if filed is None else filed)
    for topic, number in wanted:
        if number not in require_topic(metadata, topic).partitions:
            raise CommandError(f"topic {topic} has no partition {number}", "`catchment topic describe` shows them.")
    if not wanted:
        raise CommandError("the group has no position that could be moved", "Name topics with --topic.")
    return wanted


def _plan(
    cluster: Cluster, topic_partitions: list[TopicPartition], current: dict[TopicPartition, int], aim: Aim
) -> list[Move]:
    starts = offsets_at(cluster, topic_partitions, OffsetSpec.earliest())
    ends = offsets_at(cluster, topic_partitions, OffsetSpec.latest())
    if aim.filed is not None:
        targets = aim.filed
    elif aim.earliest:
        targets = starts
    elif aim.latest:
        targets = ends
    elif aim.time_ms is not None:
        found = offsets_at(cluster, topic_partitions, OffsetSpec.for_timestamp(aim.time_ms))
        targets = {
            topic_partition: offset if offset >= 0 else ends[topic_partition]
            for topic_partition, offset in found.items()
        }
    elif aim.by is not None:
        if missing := [topic_partition for topic_partition in topic_partitions if topic_partition not in current]:
            topic, number = missing[0]
            raise CommandError(
                f"the group has no position in {topic}-{number} to count from", "Use --to-earliest or another way."
            )
        targets = {topic_partition: current[topic_partition] + aim.by for topic_partition in topic_partitions}
    else:
        targets = dict.fromkeys(topic_partitions, aim.offset or 0)
    return plan(topic_partitions, current, targets, starts, ends)


def _print_moves(moves: list[Move], executed: bool, as_csv: bool, as_json: bool) -> None:
    if as_csv:
        typer.echo(to_csv(moves), nl=False)
    elif as_json:
        print_json([move._asdict() for move in moves])
    else:
        print_table(
            ["topic", "partition:", "current:", "new:", "note"],
            [["-" if cell is None else cell for cell in move] for move in moves],
        )
    if executed:
        print_note(f"moved {format_count(len(moves), 'partition')}")
    else:
        print_note("nothing was changed: add --execute to do it")
