"""`catchment topic trim`: delete the oldest records of a topic, up to an offset or a time."""

import time
from typing import Annotated, Any, NamedTuple

import typer
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from catchment.cli.failure import CommandError, joined
from catchment.cli.options import (
    DEFAULT_BOOTSTRAP_SERVERS,
    AsJson,
    BootstrapServers,
    ClientSettings,
    ClientSettingsFile,
    TimeoutSeconds,
    Yes,
    read_client_settings,
)
from catchment.cli.output import confirm, format_count, print_json, print_note, print_table
from catchment.cli.records.start_position import StartPosition
from catchment.cli.topic.view import list_offsets
from catchment.cli.wire import open_admin, outcome, read_metadata, require_topic


class Cut(NamedTuple):
    """The change to one partition: its log starts at `start` now, and would start at `target`."""

    partition: int
    start: int
    target: int
    end: int

    @property
    def offsets(self) -> int:
        return self.target - self.start


def trim(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")],
    before: Annotated[
        str,
        typer.Option(
            "--before",
            metavar="POSITION",
            help="Delete the records before this: an offset, end for all, -N to keep the last N of each partition, an age such as "
            "7d, @MILLISECONDS, or a time such as 2026-05-01T12:00:00Z.",
        ),
    ],
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", metavar="N", min=0, help="Only this partition. May be repeated.", show_default="all"
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")] = False,
    yes: Yes = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest records of a topic, up to an offset or a time.

    The start of each partition moves forward (Kafka's DeleteRecords). Offsets of records that stay do not change. A topic whose
    cleanup.policy is compact alone cannot be trimmed.
    """
    position = _position(before)
    admin = open_admin(bootstrap_servers, read_client_settings(client_config, client_settings))
    known = require_topic(read_metadata(admin, timeout_s), topic).partitions
    if missing := set(partition or ()) - set(known):
        raise CommandError(
            f"topic {topic} has no partition {min(missing)}", "`catchment topic describe` shows its partitions."
        )
    cuts = _cuts(admin, topic, sorted(set(partition or known)), position, timeout_s)
    wanted = [cut for cut in cuts if cut.offsets > 0]
    offsets = sum(cut.offsets for cut in wanted)
    if wanted and not dry_run:
        confirm(
            f"Delete {format_count(offsets, 'offset')} of topic {topic} in {format_count(len(wanted), 'partition')}?",
            yes=yes,
        )
        cuts = _delete(admin, topic, cuts, timeout_s)
    _report(topic, cuts, dry_run, as_json)


def _position(text: str) -> StartPosition:
    try:
        return StartPosition.parse(text, int(time.time() * 1000))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--before") from error


def _cuts(
    admin: AdminClient, topic: str, partitions: list[int], position: StartPosition, timeout_s: float
) -> list[Cut]:
    """Where each partition would start, between where it starts now and its end."""
    topic_partitions = [TopicPartition(topic, partition) for partition in partitions]
    starts = list_offsets(admin, topic_partitions, OffsetSpec.earliest(), timeout_s)
    ends = list_offsets(admin, topic_partitions, OffsetSpec.latest(), timeout_s)
    if position.timestamp_ms is not None:
        spec = OffsetSpec.for_timestamp(position.timestamp_ms)
        # No record is that new: all of them are deleted.
        targets = {
            partition: ends[partition] if offset < 0 else offset
            for partition, offset in list_offsets(admin, topic_partitions, spec, timeout_s).items()
        }
    elif position.last is not None:
        targets = {partition: end - position.last for partition, end in ends.items()}
    elif position.offset in (OFFSET_BEGINNING, OFFSET_END):
        targets = starts if position.offset == OFFSET_BEGINNING else ends
    else:
        targets = dict.fromkeys(partitions, position.offset or 0)
    for partition, target in targets.items():
        if target > ends[partition]:
            raise CommandError(
                f"topic {topic} partition {partition} ends at offset {ends[partition]}, before {target}",
                "`catchment topic describe` shows the offsets; --before end deletes all records.",
            )
    return [
        Cut(partition, starts[partition], max(starts[partition], targets[partition]), ends[partition])
        for partition in partitions
    ]


def _delete(admin: AdminClient, topic: str, cuts: list[Cut], timeout_s: float) -> list[Cut]:
    """The new starts as the brokers report them; a partition that fails does not stop the others."""
    wanted = [TopicPartition(topic, cut.partition, cut.target) for cut in cuts if cut.offsets > 0]
    futures = admin.delete_records(wanted, request_timeout=timeout_s, operation_timeout=timeout_s)
    starts: dict[int, int] = {}
    failures: list[CommandError] = []
    for topic_partition, future in futures.items():
        try:
            starts[topic_partition.partition] = outcome(
                future, f"cannot trim topic {topic} partition {topic_partition.partition}"
            ).low_watermark
        except CommandError as error:
            failures.append(error)
    if failures:
        raise joined(failures)
    return [cut._replace(target=starts.get(cut.partition, cut.target)) for cut in cuts]


def _report(topic: str, cuts: list[Cut], dry_run: bool, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"topic": topic, "partition": cut.partition, "start_offset": cut.start, "new_start_offset": cut.target}
        | {"end_offset": cut.end}
        for cut in cuts
    ]
    if as_json:
        print_json({"dry_run": dry_run, "partitions": rows})
        return
    print_table(
        ["partition:", "start:", "new start:", "end:"],
        [[cut.partition, cut.start, cut.target, cut.end] for cut in cuts],
    )
    count = format_count(sum(cut.offsets for cut in cuts), "offset")
    print_note(f"{count} of topic {topic} {'would be deleted' if dry_run else 'deleted'}")
