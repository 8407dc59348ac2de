"""`catchment consume`: print the records of a topic, from wherever one likes, without joining a group."""

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from confluent_kafka import Consumer, KafkaError, Message

from catchment.cli.failure import CommandError
from catchment.cli.format_string import FormatStringError, compile_format
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
from catchment.cli.record_json import record_line
from catchment.cli.start_position import StartPosition
from catchment.cli.wire import client_config as base_config
from catchment.cli.wire import create_client, explain, read_metadata, require_reachable, require_topic

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_BATCH = 1000
_POLL_S = 0.1


class Reader:
    """Writes what a consumer gives until one of the ends that were asked for is reached."""

    def __init__(self, topic: str, write: Callable[[Message], bytes], bootstrap_servers: str) -> None:
        self._topic = topic
        self._write = write
        self._bootstrap_servers = bootstrap_servers
        self._lost_at: float | None = None
        self.records = 0

    def run(
        self,
        consumer: Any,
        partitions: list[int],
        max_messages: int | None,
        until_end: bool,
        idle_s: float | None,
        timeout_s: float,
    ) -> None:
        unfinished = set(partitions) if until_end else None
        heard_at = time.monotonic()
        while max_messages is None or self.records < max_messages:
            wanted = _BATCH if max_messages is None else min(_BATCH, max_messages - self.records)
            messages = consumer.consume(wanted, _POLL_S)
            if self._print(messages, unfinished):
                heard_at = time.monotonic()
            if unfinished is not None and not unfinished:
                return
            if idle_s is not None and time.monotonic() - heard_at >= idle_s:
                return
            self._check_connection(timeout_s)

    def _print(self, messages: list[Message], unfinished: set[int] | None) -> int:
        lines = []
        for message in messages:
            error = message.error()
            if error is None:
                lines.append(self._write(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                if unfinished is not None:
                    unfinished.discard(message.partition() or 0)
            elif not error.retriable():
                raise explain(error, f"cannot read topic {self._topic} partition {message.partition()}")
        if lines:
            self._lost_at = None
            self.records += len(lines)
            sys.stdout.buffer.write(b"".join(lines))
            sys.stdout.buffer.flush()
        return len(lines)

    def note_error(self, error: KafkaError) -> None:
        """What the client library reports beside the records."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._lost_at = self._lost_at or time.monotonic()

    def _check_connection(self, timeout_s: float) -> None:
        """The client library tries for ever to find its brokers again; we give it as long as we were told to wait."""
        if self._lost_at is not None and time.monotonic() - self._lost_at >= timeout_s:
            require_reachable(self._bootstrap_servers)
            self._lost_at = None


@app.command("consume")
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            "-f",
            metavar="POSITION",
            help="beginning, end, an offset, -N for the last N of each partition, an age such as 15m, @MILLISECONDS,"
            " or a time such as 2026-05-01T12:00:00Z.",
        ),
    ] = "beginning",
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Read this one. May be repeated.", show_default="all"),
    ] = None,
    max_messages: Annotated[int | None, typer.Option("--max-messages", "-n", min=1, help="Stop after so many.")] = None,
    until_end: Annotated[bool, typer.Option("--until-end", "-e", help="Stop at the end of the log.")] = False,
    idle_timeout_s: Annotated[
        float | None, typer.Option("--idle-timeout", metavar="SECONDS", help="Stop when nothing came for so long.")
    ] = None,
    output_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help=r"%s value, %k key, %h headers, %t topic, %p partition, %o offset, %T timestamp, %S and %K lengths.",
        ),
    ] = r"%s\n",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No count at the end.")] = False,
    bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    timeout_s: TimeoutSeconds = 10.0,
    as_json: AsJson = False,
) -> None:
    """Print the records of a topic; Ctrl-C ends it."""
    position = _position(start)
    reader = Reader(topic, record_line if as_json else _format(output_format), bootstrap_servers)
    given = read_client_settings(client_config, client_settings)
    config = {
        **base_config(bootstrap_servers, given),
        **_consumer_config(until_end),
        "error_cb": reader.note_error,
        **given,
    }
    consumer = create_client(Consumer, config)
    try:
        known = sorted(require_topic(read_metadata(consumer, timeout_s), topic).partitions)
        chosen = _choose(topic, known, partition)
        consumer.assign(position.resolve(consumer, topic, chosen, timeout_s))
        with contextlib.suppress(KeyboardInterrupt):
            reader.run(consumer, chosen, max_messages, until_end, idle_timeout_s, timeout_s)
        if not quiet and sys.stderr.isatty():
            print_note(f"{format_count(reader.records, 'record')} of topic {topic}")
    finally:
        consumer.close()


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


def _consumer_config(until_end: bool) -> dict[str, Any]:
    return {
        # librdkafka wants a group's name even where none is joined: partitions are assigned by hand, nothing is committed.
        "group.id": "catchment-cli",
        "enable.auto.commit": False,
        "enable.partition.eof": until_end,
        # The end is known once a fetch comes back empty, so it should not wait long for more.
        **({"fetch.wait.max.ms": 10} if until_end else {}),
        "auto.offset.reset": "error",
        # With a full queue the library would wait a second before it fetches again, and a pipe would run dry.
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
