"""Why alerts that ask for real-time mode do not have it: told by the process that was to run them, and put in words for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from catchment.pipelines.home import Home

NOT_ALLOWED: Final = 76
"""What the process of the real-time alerts returns, to its driver alone, when they are to be decided in micro-batches."""
_FILE: Final = "realtime-refusals.json"


def write_reasons(home: Home, reasons: Mapping[str, Sequence[str]]) -> None:
    """Leave the reasons of each alert for the driver."""
    home.folder.mkdir(parents=True, exist_ok=True)
    _file(home).write_text(json.dumps(reasons), encoding="utf-8")


def read_reasons(home: Home) -> dict[str, list[str]]:
    """What `write_reasons` has left."""
    reasons: dict[str, list[str]] = json.loads(_file(home).read_text(encoding="utf-8"))
    return reasons


def notes(asking: Sequence[str], reasons: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A sentence for each reason. All alerts have real-time mode or none, so those without a reason are told of the others."""
    others = [name for name in asking if reasons.get(name)]
    shared = [f"it shares a session with {', '.join(others)}, and all have real-time mode or none"]
    return tuple(
        f"alert {name} is decided in micro-batches: {reason}"
        for name in (asking if others else ())
        for reason in reasons.get(name) or shared
    )


def _file(home: Home) -> Path:
    return home.folder / _FILE
