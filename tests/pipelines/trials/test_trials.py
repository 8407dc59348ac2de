"""A pipeline on trial behaves as it would with a broker: late, broken and repeated events, tables and updates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipelines.emergency import YAML, write_emergency

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "testing-pipelines.md"
_BLOCK = re.compile(r"^```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.usefixtures("spark")


def _report(name: str, second: int, district: str | None = "Harbour", kind: str = "fire") -> dict[str, Any]:
    return {"id": name, "district": district, "kind": kind, "at": f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"}


@pytest.mark.parametrize("suffix", [".yaml", ".py"])
def test_every_event_is_in_one_place(tmp_path: Path, suffix: str) -> None:
    from catchment.pipelines.testing import trial

    city = trial(write_emergency(tmp_path, suffix=suffix))
    city.given(
        reports=[_report("a", 1), _report("a", 1), "{broken", _report("b", 3, kind="party"), _report("c", 4, None)],
        crews=[{"district": "Harbour", "crew": 2}],
    )
    city.given(reports=[_report("d", 50), {"id": "e"}], crews=[{"district": "Harbour", "crew": 3}])
    city.given(reports=[_report("f", 30), _report("g", 31), _report("a", 40)])
    city.expect("clean", [{"id": "a", "at": "2026-01-01T00:00:01Z"}, {"id": "d"}, {"id": "g"}])
    city.expect("late", [{"id": "f", "_error": "late"}])
    city.expect(
        "quarantine",
        [
            {"_value": "{broken", "_error": "does not decode"},
            {"id": "b", "_error": "failed check: kind IN"},
            {"id": "c", "_error": "failed check: district IS NOT NULL", "_stage": "clean"},
            {"id": "e", "_error": "has no at"},
        ],
    )
    city.expect(
        "board",
        [
            {"district": "Harbour", "start": "2026-01-01T00:00:00Z", "count": 1, "crew": 2},
            {"district": "Harbour", "start": "2026-01-01T00:00:50Z", "count": 1, "crew": 3},
            {"district": "Harbour", "start": "2026-01-01T00:00:30Z", "count": 1, "crew": 3},
        ],
    )


def test_an_alert_fires_once_within_its_cooldown(tmp_path: Path) -> None:
    from catchment.pipelines.testing import trial

    text = YAML.replace("count > 40 AND crew < 3", "count > 1")
    city = trial(write_emergency(tmp_path, text=text))
    city.given(reports=[_report("a", 1), _report("b", 2), _report("c", 3, "Hills")])
    city.given(reports=[_report("d", 11), _report("e", 12)])
    city.expect(
        "burst", [{"district": "Harbour", "count": 2, "end": "2026-01-01T00:00:10Z", "_message": "burst: Harbour"}]
    )


def test_what_is_not_as_expected_is_shown_as_a_table(tmp_path: Path) -> None:
    from catchment.pipelines.testing import trial

    city = trial(write_emergency(tmp_path)).given(reports=[_report("a", 1)])
    with pytest.raises(AssertionError) as raised:
        city.expect("clean", [{"id": "b"}])
    assert (
        str(raised.value) == "clean is not as expected\n          id\nexpected  b\ngot       a\n0 rows are as expected"
    )


def test_rows_are_updated_windows_close_and_tables_forget(tmp_path: Path) -> None:
    """Batch by batch: an update gives changed rows only, an append a window once it is closed."""
    from catchment.pipelines import Pipeline, topic
    from catchment.pipelines.testing import trial

    city = Pipeline("city")
    schema = "id string, district string, at timestamp"
    reports = city.source(topic("reports", schema=schema), event_time="at", lateness="10 seconds")
    crews = city.table(topic("crews", schema="district string, crew int"), key="district")

    @city.stage(reports, crews, mode="update", key="district")
    def totals(reports: DataFrame, crews: DataFrame) -> DataFrame:
        return reports.groupBy("district").count().join(crews, "district", "left")

    @city.stage(reports)
    def closed(reports: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return reports.groupBy(F.window("at", "10 seconds").alias("w")).count().select("w.start", "count")

    del totals, closed
    tried = trial(city)
    tried.given(reports=[_row("a", 1), _row("b", 2, "Hills")], crews=[{"district": "Harbour", "crew": 1}])
    tried.given(reports=[_row("c", 3)], crews=[{"district": "Harbour", "_deleted": True}])
    tried.given(reports=[_row("d", 35)])
    assert tried.batches("totals")[:3] == [
        [{"district": "Harbour", "count": 1, "crew": 1}, {"district": "Hills", "count": 1, "crew": None}],
        [{"district": "Harbour", "count": 2, "crew": None}],
        [{"district": "Harbour", "count": 3, "crew": None}],
    ]
    tried.expect("totals", [{"district": "Harbour", "count": 3}, {"district": "Hills", "count": 1}])
    tried.expect("closed", [{"start": "2026-01-01T00:00:00Z", "count": 3}])


def test_a_broken_row_of_a_table_is_skipped_and_quarantined(tmp_path: Path) -> None:
    from catchment.pipelines.testing import trial

    text = YAML.replace("schema: crews.ddl,", "schema: crews.ddl, on_error: quarantine,")
    city = trial(write_emergency(tmp_path, text=text))
    reports = [_row("a", 1) | {"kind": "fire"}]
    city.given(reports=reports, crews=[{"district": "Harbour", "crew": 2}, {"district": "Harbour", "crew": "two"}])

    city.expect("board", [{"district": "Harbour", "count": 1, "crew": 2}])
    city.expect("quarantine", [{"district": "Harbour", "crew": "two", "_stage": "crews-input"}])


def test_names_that_a_pipeline_does_not_have_are_reported(tmp_path: Path) -> None:
    from catchment.pipelines.testing import trial
    from catchment.pipelines.trials.trial import UnknownName

    city = trial(write_emergency(tmp_path))
    with pytest.raises(UnknownName, match="no source or table is named raports; there is reports, crews"):
        city.given(raports=[])
    with pytest.raises(
        UnknownName, match="no stage or alert is named bored; there is clean, board, burst, quarantine, late"
    ):
        city.rows("bored")


def test_rows_that_are_given_after_results_were_asked_for_are_refused(tmp_path: Path) -> None:
    from catchment.pipelines.testing import trial

    city = trial(write_emergency(tmp_path))
    city.expect("late", [])
    with pytest.raises(ValueError, match="give all batches first"):
        city.given(reports=[])


def test_tests_beside_a_pipeline_are_run_and_their_failures_reported(tmp_path: Path) -> None:
    from catchment.pipelines.trials.cases import run_test, tests_of

    holding = """\
tests:
  one by one:
    given: {reports: [{id: a, district: Harbour, kind: fire, at: 2026-01-01T00:00:01Z}]}
    expect: {clean: [{id: a, at: 2026-01-01T00:00:01Z}], quarantine: []}
  nothing comes:
    given: {reports: [{id: a, district: Harbour, kind: fire, at: 2026-01-01T00:00:01Z}]}
    expect: {clean: [], late: []}
"""
    file = write_emergency(tmp_path, text=YAML + holding)
    (tmp_path / "test_city.py").write_text(
        "def test_a_quake_counts(city):\n"
        "    city.given(reports=[{'id': 'q', 'district': 'X', 'kind': 'quake', 'at': '2026-01-01T00:00:01Z'}])\n"
        "    assert [row['id'] for row in city.rows('clean')] == ['q']\n"
    )
    outcomes = {one.name: run_test(one).failure for one in tests_of(file)}
    assert list(outcomes) == ["one by one", "nothing comes", "a quake counts"]
    assert outcomes["one by one"] is None
    assert outcomes["a quake counts"] is None
    assert "clean is not as expected" in str(outcomes["nothing comes"])


def test_the_guides_own_tests_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from catchment.pipelines.trials.cases import run_test, tests_of

    blocks = _BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    for name in ("city.yaml", "test_city.py"):
        (block,) = [one for one in blocks if one.startswith(f"# {name}\n")]
        (tmp_path / name).write_text(block)
    monkeypatch.chdir(tmp_path)
    outcomes = {one.name: run_test(one).failure for one in tests_of(tmp_path / "city.yaml")}
    assert len(outcomes) == 3
    assert set(outcomes.values()) == {None}, outcomes


def test_a_badly_written_test_is_reported_with_its_line(tmp_path: Path) -> None:
    from catchment.pipelines.errors import Mistakes
    from catchment.pipelines.trials.cases import tests_of

    wrong = "tests:\n  one:\n    given: {reports: [{id: a}]}\n    expekt: {}\n  two:\n    expect: {clean: 7}\n"
    file = write_emergency(tmp_path)
    (tmp_path / "city.tests.yaml").write_text(wrong)
    with pytest.raises(Mistakes) as raised:
        tests_of(file)
    lines = [(one.location.line if one.location else 0, one.what.split(":")[0]) for one in raised.value.found]
    assert lines == [
        (2, "tests.one.expect"),
        (4, "tests.one.expekt"),
        (5, "tests.two.given"),
        (6, "tests.two.expect.clean"),
    ]


def test_an_error_in_a_stage_is_the_failure_of_its_test(tmp_path: Path, spark: SparkSession) -> None:
    from catchment.pipelines.trials.cases import run_test, tests_of

    text = YAML.replace("SELECT c.district", "SELECT c.nonsense") + (
        "tests:\n  it fails:\n    given: {reports: []}\n    expect: {board: []}\n"
    )
    (outcome,) = [run_test(one) for one in tests_of(write_emergency(tmp_path, text=text))]
    assert "nonsense" in str(outcome.failure)
    assert "JVM stacktrace" not in str(outcome.failure)


def _row(name: str, second: int, district: str = "Harbour") -> dict[str, Any]:
    return {"id": name, "district": district, "at": f"2026-01-01T00:00:{second:02}Z"}
