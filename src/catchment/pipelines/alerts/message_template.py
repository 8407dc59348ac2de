"""The message of an alert: text with columns in braces, such as `{district}: {count:,} reports`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from string import Formatter
from typing import Final, NamedTuple

NUMBER: Final = re.compile(r"(,?)(?:(d)|\.(\d+)f)?")
"""How a number may be laid out: `.2f`, `d`, and a comma before them."""


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
