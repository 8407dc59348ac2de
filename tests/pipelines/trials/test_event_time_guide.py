"""The stages in the guide to windows, joins and state compute what it says; declarations on other pages are sound."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "guide"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def moment(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


def call(name: str, second: int) -> dict[str, Any]:
    return {"id": name, "district": "Harbour", "at": moment(second)}


def starts(counts: dict[int, int]) -> list[dict[str, Any]]:
    return [{"district": "Harbour", "start": moment(second), "count": count} for second, count in counts.items()]


@pytest.mark.usefixtures("spark")
def test_windows_joins_and_state_are_as_the_guide_says(tmp_path: Path) -> None:
    from catchment.pipelines.testing import trial

    file = tmp_path / "city.py"
    file.write_text("\n".join(_BLOCK.findall((GUIDE / "event-time.md").read_text(encoding="utf-8"))))
    city = trial(file)
    city.given(
        calls=[call("a", 61), call("b", 64), call("c", 72)],
        visits=[{"id": "v", "district": "Harbour", "seen": moment(66)}],
        crews=[{"district": "Harbour", "crew": 2}],
    )
    # What comes a minute later closes everything before it.
    city.given(calls=[call("d", 132)], visits=[{"id": "w", "district": "Hills", "seen": moment(132)}])
    city.given(calls=[call("e", 133)], visits=[{"id": "x", "district": "Hills", "seen": moment(133)}])

    city.expect("tumbling", starts({60: 2, 70: 1, 130: 2}))
    sliding = {45: 2, 50: 2, 55: 3, 60: 3, 65: 1, 70: 1, 115: 2, 120: 2, 125: 2, 130: 2}
    city.expect("sliding", starts(sliding))
    city.expect("sessions", [{"end": moment(70), "count": 2}, {"end": moment(78), "count": 1}])
    city.expect("staffed", [{"id": name, "crew": 2} for name in "abcde"])
    met = {"a": "v", "b": "v", "c": None}
    city.expect("answered", [{"call": name, "visit": visit} for name, visit in met.items()])
    city.expect("silence", [{"district": "Harbour", "longest_s": 60.0}])
    city.expect("minutes", [{"district": "Harbour", "start": moment(60), "count": 3}])


@pytest.mark.parametrize("page", ["lake.md", "../../README.md"])
def test_a_pipeline_that_a_page_shows_is_sound(page: str, tmp_path: Path) -> None:
    pytest.importorskip("pydantic", reason="pydantic is not installed: pip install 'catchment-streaming[pipelines]'")
    from catchment.pipelines.declaration.loading import load

    shown = [one for one in _BLOCK.findall((GUIDE / page).read_text(encoding="utf-8")) if "Pipeline(" in one]
    assert shown
    for number, program in enumerate(shown):
        file = tmp_path / f"shown{number}.py"
        file.write_text(program)
        assert load(file).specification.sinks
