"""The input of `catchment produce`: lines, whole files, or JSON lines, of files or standard input."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import IO, NamedTuple

from catchment.cli.failure import CommandError
from catchment.cli.records.record_json import RecordInput, RecordJsonError, parse_record_line


class InputFormat(StrEnum):
    LINES = "lines"
    JSON = "json"
    FILE = "file"


class LineRules(NamedTuple):
    """How a line, or a whole file, becomes key and value."""

    key_separator: bytes | None = None
    null_marker: bytes | None = None

    def record(self, data: bytes) -> RecordInput:
        key: bytes | None = None
        value: bytes | None = data
        if self.key_separator is not None:
            before, found, after = data.partition(self.key_separator)
            if found:
                key, value = before, after
        if self.null_marker is not None:
            key = None if key == self.null_marker else key
            value = None if value == self.null_marker else value
        return RecordInput(value, key)


def read_records(files: list[Path], input_format: InputFormat, rules: LineRules) -> Iterator[RecordInput]:
    """Records in the order of the files; `-`, or no file at all, is standard input."""
    for file in files or [Path("-")]:
        with _open(file) as stream:
            try:
                if input_format is InputFormat.FILE:
                    yield rules.record(stream.read())
                    continue
                for number, line in enumerate(stream, 1):
                    yield _line_record(line, input_format, rules, f"{file}:{number}")
            except OSError as error:
                raise CommandError(f"cannot read {file}: {error.strerror}") from error


def _line_record(line: bytes, input_format: InputFormat, rules: LineRules, location: str) -> RecordInput:
    if input_format is InputFormat.LINES:
        return rules.record(line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line)
    try:
        return parse_record_line(line)
    except RecordJsonError as error:
        raise CommandError(f"{location}: {error}", "Write a line as `catchment consume --json` does.") from error


def total_bytes(files: list[Path]) -> int | None:
    """The size of the input, if it is known in advance, for the progress bar."""
    try:
        return sum(file.stat().st_size for file in files) or None
    except OSError:
        return None


def is_typed_in(files: list[Path]) -> bool:
    """Whether standard input is read and is a terminal, where a progress bar would mix with what the user types."""
    return (not files or any(str(file) == "-" for file in files)) and sys.stdin.isatty()


def _open(file: Path) -> AbstractContextManager[IO[bytes]]:
    if str(file) == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return file.open("rb")
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}") from error
