"""`catchment produce`: send records from files or standard input, with a progress bar where a person watches."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from confluent_kafka import KafkaError, Message, Producer

from catchment.cli.failure import CommandError
from catchment.cli.options import (
    DEFAULT_BOOTSTRAP_SERVERS,
    AsJson,
    BootstrapServers,
    ClientSettings,
    ClientSettingsFile,
    TimeoutSeconds,
    parse_assignments,
    read_client_settings,
)
from catchment.cli.output import format_bytes, format_count, print_json, print_note
from catchment.cli.records.record_input import InputFormat, LineRules, is_typed_in, read_records, total_bytes
from catchment.cli.records.record_json import MAX_PARTITION, RecordInput
from catchment.cli.wire import client_config as base_config
from catchment.cli.wire import create_client, explain, explained, raise_unknown_topic, read_metadata

if TYPE_CHECKING:
    from rich.progress import Progress


_REFRESH_S = 0.1
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

INTERRUPTED = 130
_FLUSH_STEP_S = 0.1
_RECORDS_A_LOOK = 256
"""How often to check for failures and redraw: with every record it would take half of the time."""
_LARGEST_REQUEST_BYTES = 104_857_600
_CREATION_STEP_S = 0.05
_NOT_YET = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE})


class SendProgress:
    """Records and bytes so far. Cheap to update: the bar is redrawn ten times a second at most."""

    def __init__(self, total_bytes: int | None, *, visible: bool) -> None:
        self._total_bytes = total_bytes
        self._bar: Progress | None = None
        self._visible = visible and sys.stderr.isatty()
        self._drawn_at = 0.0
        self._started_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._visible:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._bar.start()
            self._bar.add_task("", total=self._total_bytes)
        return self

    def update(self, records: int, size_bytes: int) -> None:
        if self._bar is None:
            return
        now = time.monotonic()
        if now - self._drawn_at < _REFRESH_S:
            return
        self._drawn_at = now
        elapsed_s = max(now - self._started_at, 1e-6)
        text = (
            f"{records:,} records  {format_bytes(size_bytes)}  {records / elapsed_s:,.0f}/s"
            f"  {format_bytes(size_bytes / elapsed_s)}/s"
        )
        self._bar.update(self._bar.task_ids[0], completed=size_bytes, description=text, refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Sender:
    """Hands records to the client library, and counts those that failed."""

    def __init__(self, config: Mapping[str, Any], topic: str, rate: float | None, progress: SendProgress) -> None:
        self._producer: Producer = create_client(Producer, {**config, "on_delivery": self._note_delivery})
        self._topic = topic
        self._rate = rate
        self._progress = progress
        self.started_at = time.monotonic()
        self.records = 0
        self.size_bytes = 0
        self.failed = 0
        self.failure: KafkaError | None = None
        self.created_partitions: int | None = None
        """Of a topic that this command has created."""

    def _note_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Called for failures alone, as `delivery.report.only.error` asks."""
        self.failed += 1
        self.failure = self.failure or error

    def connect(self, timeout_s: float, *, may_create: bool) -> None:
        """Find the topic, or let the broker create it, before the first record is read.

        As for every Kafka client, a request for the topic's metadata is what makes the broker create it, if its
        `auto.create.topics.enable` allows that.
        """
        if self._topic not in read_metadata(self._producer, timeout_s).topics:
            if not may_create:
                raise_unknown_topic(self._topic)
            self.created_partitions = self._create(_creation_wait_s(timeout_s))
        self.started_at = time.monotonic()

    def _create(self, timeout_s: float) -> int:
        """The number of partitions of the new topic. Until it exists, brokers report that the topic is unknown."""
        deadline = time.monotonic() + timeout_s
        while True:
            topic = self._producer.list_topics(self._topic, timeout=timeout_s).topics[self._topic]
            if topic.error is None:
                return len(topic.partitions)
            if topic.error.code() not in _NOT_YET:
                raise explain(topic.error, f"cannot create topic {self._topic}")
            if time.monotonic() >= deadline:
                raise CommandError(
                    f"topic {self._topic} does not exist, and the broker creates no topic by itself",
                    f"`catchment topic create {self._topic}` makes it; auto.create.topics.enable=true lets the broker do so.",
                )
            self._producer.poll(_CREATION_STEP_S)

    def send_all(
        self, records: Iterable[RecordInput], headers: Sequence[tuple[str, bytes | None]], partition: int | None
    ) -> None:
        """Send until the input ends or a record is refused: those that follow would most likely be rejected too."""
        for record in records:
            self._wait_for_turn()
            self._send(record, headers, partition)
            if self._rate is not None or self.records % _RECORDS_A_LOOK == 0:
                self._producer.poll(0)
                self._progress.update(self.records, self.size_bytes)
            if self.failure is not None:
                return

    def _wait_for_turn(self) -> None:
        if self._rate is None:
            return
        due_at = self.started_at + self.records / self._rate
        while (wait_s := due_at - time.monotonic()) > 0:
            self._producer.poll(wait_s)

    def _send(self, record: RecordInput, headers: Sequence[tuple[str, bytes | None]], partition: int | None) -> None:
        arguments: dict[str, Any] = {"value": record.value, "key": record.key}
        if partition is None:
            partition = record.partition
        if partition is not None:
            arguments["partition"] = partition
        if record.headers or headers:
            arguments["headers"] = [*(record.headers or ()), *headers]
        if record.timestamp_ms is not None:
            arguments["timestamp"] = record.timestamp_ms
        while True:
            try:
                self._producer.produce(self._topic, **arguments)
            except BufferError:
                self._producer.poll(_FLUSH_STEP_S)
            else:
                break
        self.records += 1
        self.size_bytes += len(record.value or b"") + len(record.key or b"")

    def finish(self) -> None:
        """Wait for the acknowledgement of every record."""
        while self._producer.flush(_FLUSH_STEP_S):
            self._progress.update(self.records - len(self._producer), self.size_bytes)

    def summary(self) -> dict[str, Any]:
        return {
            "topic": self._topic,
            "created": self.created_partitions is not None,
            "records": self.records - self.failed,
            "failed": self.failed,
            "bytes": self.size_bytes,
            "seconds": round(time.monotonic() - self.started_at, 3),
        }


@app.command("produce")
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to send to.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="What to send; standard input if none, or for -.")
    ] = None,
    input_format: Annotated[
        InputFormat,
        typer.Option("--input", "-i", help="A record a line, a line of JSON as `consume --json` writes it, or a file."),
    ] = InputFormat.LINES,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help="The separator of key and value in a line."),
    ] = None,
    null_marker: Annotated[
        str | None,
        typer.Option("--null-marker", metavar="TEXT", help="A key or value of exactly this text is sent as null."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for every record. May be repeated."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            "-p",
            metavar="N",
            min=0,
            max=MAX_PARTITION,
            help="Send to this partition.",
            show_default="the key decides, as in Java",
        ),
    ] = None,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="How to compress records.")
    ] = Compression.NONE,
    acks: Annotated[Acks, typer.Option("--acks", "-a", help="Whose acknowledgement to wait for.")] = Acks.ALL,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", min=0.001, help="Records a second.", show_default="no limit")
    ] = None,
    no_create: Annotated[
        bool,
        typer.Option(
            "--no-create", help="Fail if the topic does not exist. Else the broker may create it, as its settings say."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")] = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Send records to a topic.

    A topic that does not exist is created by the broker, if its `auto.create.topics.enable` allows that, and a note says so.
    """
    headers = [(name, value.encode()) for name, value in parse_assignments(header, "--header").items()]
    rules = LineRules(_bytes(key_separator), _bytes(null_marker))
    given = read_client_settings(client_config, client_settings)
    config = {**base_config(bootstrap_servers, given), **_producer_config(compression, acks, timeout_s), **given}
    interrupted = False
    is_typed = is_typed_in(files or [])
    progress = SendProgress(total_bytes(files or []), visible=not quiet and not is_typed)
    with explained(f"cannot send to topic {topic}"):
        sender = Sender(config, topic, rate, progress)
        sender.connect(timeout_s, may_create=not no_create)
    if not quiet:
        _print_notes(sender, topic, input_format if is_typed else None)
    with progress, explained(f"cannot send to topic {topic}"):
        try:
            sender.send_all(read_records(files or [], input_format, rules), headers, partition)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sender.finish()
    _report(sender, topic, as_json, quiet)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _print_notes(sender: Sender, topic: str, typed_format: InputFormat | None) -> None:
    """Print what the user should know before the first record."""
    if sender.created_partitions is not None:
        print_note(f"created topic {topic} with {format_count(sender.created_partitions, 'partition')}")
    if typed_format is not None:
        what = "one record" if typed_format is InputFormat.FILE else "one record a line"
        print_note(f"Type {what}; Ctrl-D on an empty line ends the input.")


def _creation_wait_s(timeout_s: float) -> float:
    """How long a topic may be unknown: less than the timeout, so that the error names the topic as the cause."""
    return min(5.0, timeout_s / 2)


def _producer_config(compression: Compression, acks: Acks, timeout_s: float) -> dict[str, Any]:
    return {
        "partitioner": "murmur2_random",
        "compression.type": compression.value,
        "acks": acks.value,
        # A retry must not write a record twice; Kafka's producer has the same default.
        "enable.idempotence": acks is Acks.ALL,
        "message.timeout.ms": int(timeout_s * 1000),
        "topic.metadata.propagation.max.ms": int(_creation_wait_s(timeout_s) * 1000),
        "message.max.bytes": _LARGEST_REQUEST_BYTES,
        "delivery.report.only.error": True,
    }


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="surrogateescape")


def _report(sender: Sender, topic: str, as_json: bool, quiet: bool) -> None:
    summary = sender.summary()
    if as_json:
        print_json(summary)
    elif not quiet:
        print_note(
            f"sent {format_count(summary['records'], 'record')} ({format_bytes(sender.size_bytes)})"
            f" to topic {topic} in {summary['seconds']} s"
        )
    if sender.failure is not None:
        failure = explain(sender.failure, f"{format_count(sender.failed, 'record')} not delivered to topic {topic}")
        raise CommandError(failure.message, failure.advice)
