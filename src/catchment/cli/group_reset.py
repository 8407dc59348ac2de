"""Moving a group: from what was asked for to a plan that says where each partition goes, and its file."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from catchment.cli.failure import CommandError
from catchment.client.topic_metadata import TopicPartition


class Move(NamedTuple):
    topic: str
    partition: int
    current: int | None
    target: int
    note: str = ""


def parse_topics(texts: Sequence[str]) -> dict[str, list[int] | None]:
    """`topic` means all its partitions, `topic:0,2` these."""
    found: dict[str, list[int] | None] = {}
    for text in texts:
        topic, separator, numbers = text.partition(":")
        if not separator:
            found[topic] = None
            continue
        parts = numbers.split(",")
        if not topic or not all(part.strip().isdecimal() for part in parts):
            raise ValueError(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION…")
        found[topic] = sorted({int(part) for part in parts})
    return found


def plan(
    places: Sequence[TopicPartition],
    current: Mapping[TopicPartition, int],
    targets: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[Move]:
    """Where each partition goes: to its target, but never outside the log, and the note says where that made a difference."""
    moves = []
    for place in places:
        wanted = targets[place]
        kept = min(max(wanted, starts[place]), ends[place])
        note = ""
        if wanted < kept:
            note = f"{wanted} is before the start of the log"
        elif wanted > kept:
            note = f"{wanted} is beyond the end of the log"
        moves.append(Move(*place, current.get(place), kept, note))
    return moves


def to_csv(moves: Sequence[Move]) -> str:
    """The plan in the form that `kafka-consumer-groups --export` writes for one group."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((move.topic, move.partition, move.target) for move in moves)
    return text.getvalue()


def read_csv(path: Path, group: str) -> dict[TopicPartition, int]:
    """A plan from a file: topic,partition,offset, or the same with the group before it."""
    try:
        lines = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CommandError(f"cannot read the plan in {path}: {error}") from error
    found: dict[TopicPartition, int] = {}
    for number, fields in enumerate(lines, 1):
        if not fields:
            continue
        cells = [field.strip() for field in fields]
        if len(cells) == 4:
            if cells[0] != group:
                continue
            cells = cells[1:]
        if len(cells) != 3 or not cells[0] or not all(cell.isdecimal() for cell in cells[1:]):
            raise CommandError(
                f"line {number} of {path} is not topic,partition,offset: {','.join(fields)}",
                "`catchment group reset … --csv` writes such a file.",
            )
        found[cells[0], int(cells[1])] = int(cells[2])
    if not found:
        raise CommandError(f"the plan in {path} has no line for group {group}")
    return found
