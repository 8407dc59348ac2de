"""One alert of a pipeline, as the code that decides, writes and notifies uses it, with the template of its message."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Final, NamedTuple

CANDIDATES_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class AlertRule:
    """The condition of an alert, and where it is sent."""

    pipeline: str
    name: str
    when: str
    """The condition on a row, in SQL."""
    key: tuple[str, ...]
    """The columns whose values an alert is about: each combination has a cooldown of its own."""
    event_time: str
    """The column with the time of a row: cooldown goes by it, and an alert is the same if key and time are."""
    cooldown_ms: int = 0
    topics: tuple[str, ...] = ()
    topic_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The columns that are the key of the records in a topic, where they are others than those of the alert."""
    webhooks: tuple[str, ...] = ()
    mails: tuple[str, ...] = ()
    message: str | None = None
    """What people read, with columns in braces."""
    version: int = 1
    candidates_at_once: int = CANDIDATES_AT_ONCE
    """How many rows that satisfy the condition the driver holds; a batch with more is decided in slices."""

    @property
    def log_topic(self) -> str:
        """Where all alerts of the pipeline are written: what has fired, and what the notifier sends."""
        return log_topic(self.pipeline)

    @property
    def transactional_id(self) -> str:
        """The same in every version: the newest driver fences those before it."""
        return f"{self.pipeline}-alert-{self.name}"


def log_topic(pipeline: str) -> str:
    """The topic of all alerts of a pipeline."""
    return f"{pipeline}.alerts"


def undelivered_topic(pipeline: str) -> str:
    """The topic of alerts that could not be delivered by webhook or mail."""
    return f"{pipeline}.alerts.undelivered"


NUMBER: Final = re.compile(r"(,?)(?:(d)|\.(\d+)f)?")
"""How a number may be formatted: `.2f`, `d`, and a comma before them."""


class Piece(NamedTuple):
    """Text, and the column that follows it, if one does."""

    text: str
    column: str | None
    layout: str
    conversion: str | None


def pieces(message: str) -> list[Piece]:
    """The parts of a message; ValueError where its braces do not match."""
    parsed = Formatter().parse(message)
    return [Piece(text, column, layout or "", conversion) for text, column, layout, conversion in parsed]


def mistakes_in(message: str, columns: Collection[str]) -> Iterator[tuple[str | None, str]]:
    """What is wrong with a message for rows that have these columns: the name that is none of them, if it is that, and why."""
    try:
        parts = pieces(message)
    except ValueError as error:
        yield None, str(error)
        return
    for part in parts:
        if part.column is None:
            continue
        written = f"{{{part.column}{f'!{part.conversion}' if part.conversion else ''}:{part.layout}}}"
        if part.column not in columns:
            yield part.column, f"{{{part.column}}} is no column; there are {', '.join(columns)}"
        elif part.conversion or NUMBER.fullmatch(part.layout) is None:
            yield None, f"the layout of {written} is unknown; there are .2f, d and a comma before them"
