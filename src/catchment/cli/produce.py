"""`catchment produce`: send lines, files or JSON records to a topic."""

import time
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

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
from catchment.cli.progress import SendProgress
from catchment.cli.record_input import InputFormat, LineRules, read_records, total_bytes
from catchment.cli.record_json import MAX_PARTITION, RecordInput
from catchment.cli.wire import client_config as base_config
from catchment.cli.wire import create_client, explain, explained, read_metadata

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

INTERRUPTED = 130
_FLUSH_STEP_S = 0.1
_RECORDS_A_LOOK = 256
"""How often to look for failures and redraw: at every record it would take half of the time."""
_LARGEST_REQUEST_BYTES = 104_857_600


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
    """Hands records to the client library at a given rate and keeps count of what became of them."""

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

    def _note_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Called for failures alone, as `delivery.report.only.error` asks."""
        self.failed += 1
        self.failure = self.failure or error

    def connect(self, timeout_s: float) -> None:
        """Tell a server that is no broker apart, and be connected when the first record comes."""
        read_metadata(self._producer, timeout_s)
        self.started_at = time.monotonic()

    def send_all(
        self, records: Iterable[RecordInput], headers: Sequence[tuple[str, bytes | None]], partition: int | None
    ) -> None:
        """Send until the input ends or a record is refused: what follows would most likely share its fate."""
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
        """Wait for every record that is under way."""
        while self._producer.flush(_FLUSH_STEP_S):
            self._progress.update(self.records - len(self._producer), self.size_bytes)

    def summary(self) -> dict[str, Any]:
        return {
            "topic": self._topic,
            "records": self.records - self.failed,
            "failed": self.failed,
            "bytes": self.size_bytes,
            "seconds": round(time.monotonic() - self.started_at, 3),
        }


@app.command("produce")
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to send.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="What to send; standard input if none, or for -.")
    ] = None,
    input_format: Annotated[
        InputFormat,
        typer.Option("--input", "-i", help="A record a line, a line of JSON as `consume --json` writes it, or a file."),
    ] = InputFormat.LINES,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help="What stands between key and value in a line."),
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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Send records to a topic."""
    headers = [(name, value.encode()) for name, value in parse_assignments(header, "--header").items()]
    rules = LineRules(_bytes(key_separator), _bytes(null_marker))
    given = read_client_settings(client_config, client_settings)
    config = {**base_config(bootstrap_servers, given), **_producer_config(compression, acks, timeout_s), **given}
    interrupted = False
    with (
        SendProgress(total_bytes(files or []), visible=not quiet) as progress,
        explained(f"cannot send to topic {topic}"),
    ):
        sender = Sender(config, topic, rate, progress)
        sender.connect(timeout_s)
        try:
            sender.send_all(read_records(files or [], input_format, rules), headers, partition)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sender.finish()
    _report(sender, topic, as_json, quiet)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _producer_config(compression: Compression, acks: Acks, timeout_s: float) -> dict[str, Any]:
    return {
        "partitioner": "murmur2_random",
        "compression.type": compression.value,
        "acks": acks.value,
        # A retry must not write a record twice; Kafka's own producers choose the same.
        "enable.idempotence": acks is Acks.ALL,
        "message.timeout.ms": int(timeout_s * 1000),
        # How long a topic may be unknown: shorter than the time-out, so that it is named as the cause.
        "topic.metadata.propagation.max.ms": min(5000, int(timeout_s * 500)),
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
