"""The board of the city, reckoned anew from the cleaned reports without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

_WINDOW_S: Final = 10
_NAMED: Final = 5


def differences(clean: Iterable[Mapping[str, Any]], board: Iterable[Mapping[str, Any]]) -> list[str]:
    """Windows whose counts are not those of the reports."""
    expected: Counter[tuple[str, datetime]] = Counter()
    calls: Counter[tuple[str, datetime]] = Counter()
    for report in clean:
        moment_s = datetime.fromisoformat(report["at"]).timestamp()
        window = report["district"], datetime.fromtimestamp(moment_s // _WINDOW_S * _WINDOW_S, UTC)
        expected[window] += 1
        calls[window] += report.get("origin") == "citizen"
    found = {(row["district"], row["start"]): (row["count"], row["calls"]) for row in board}
    wanted = {window: (count, calls[window]) for window, count in expected.items()}
    wrong = sorted(one for one in found.keys() | wanted.keys() if found.get(one) != wanted.get(one))
    return [
        f"the board has {found.get(one)} for {one[0]} at {one[1]:%H:%M:%S}, and the reports are {wanted.get(one)}"
        for one in wrong[:_NAMED]
    ] + ([f"and {len(wrong) - _NAMED} more windows"] if len(wrong) > _NAMED else [])
