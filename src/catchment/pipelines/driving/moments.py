"""Moments as text in ISO 8601 with a Z, as Spark writes them, and back."""

from __future__ import annotations

from datetime import UTC, datetime


def now_text() -> str:
    """This moment, to the millisecond."""
    return as_text(datetime.now(UTC))


def as_text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_text(text: str) -> datetime:
    return datetime.fromisoformat(text)
