"""Two parts of a pipeline that would share a name or a topic are refused where they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pipelines.emergency import YAML, write_emergency

from catchment.pipelines.declaration.loading import load
from catchment.pipelines.errors import Mistakes

_LATER = "  board:\n    mode"
"""Where more stages have room, in line 16."""


def _mistakes(folder: Path, *changes: tuple[str, str]) -> list[str]:
    text = YAML
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    file = write_emergency(folder, text=text)
    with pytest.raises(Mistakes) as raised:
        load(file)
    return [str(one).replace(str(file), file.name) for one in raised.value.found]


def _stage(declared: str) -> tuple[str, str]:
    return _LATER, f"  {declared}\n{_LATER}"


def _sink(declared: str) -> tuple[str, str]:
    return "sinks:", f"sinks:\n  - {declared}"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("quarantine", "records that cannot be used are there"),
        ("late", "records that came too late are there"),
        ("alerts", "it is the log of the alerts"),
    ],
)
def test_a_stage_does_not_get_a_topic_that_the_pipeline_keeps_for_itself(tmp_path: Path, name: str, why: str) -> None:
    said = f"stage {name} may not write topic emergency.{name}: {why}. Name another with `to`."
    assert _mistakes(tmp_path, _stage(f"{name}: {{from: reports}}")) == [f"city.yaml:16: {said}"]
    other = YAML.replace(_LATER, f"  {name}: {{from: reports, to: {{topic: aside}}}}\n{_LATER}")
    load(write_emergency(tmp_path, text=other))


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("emergency.quarantine", "records that cannot be used are there"),
        ("emergency.quarantine.replayed", "what was sent back from the quarantine is noted there"),
        ("emergency.late", "records that came too late are there"),
        ("emergency.alerts", "it is the log of the alerts"),
        ("emergency.alerts.undelivered", "alerts that could not be delivered are there"),
        ("reports.clean", "stage clean writes it"),
        ("reports", "source reports reads it"),
        ("crews", "table crews reads it"),
    ],
)
def test_no_other_part_writes_to_a_topic_of_the_pipeline(tmp_path: Path, topic: str, why: str) -> None:
    # Of two stages that meet, both are reported.
    stage = _mistakes(tmp_path, _stage(f"again: {{from: reports, to: {{topic: {topic}}}}}"))
    assert f"city.yaml:16: stage again may not write topic {topic}: {why}. Name another with `to`." in stage
    assert len(stage) == (2 if topic == "reports.clean" else 1)
    sink = _mistakes(tmp_path, _sink(f"{{from: board, topic: {topic}}}"))
    assert sink == [f"city.yaml:24: sinks.0.topic: {topic} is no topic to write to: {why}. Name another."]


def test_an_alert_is_reported_to_a_topic_that_no_stage_writes_and_may_be_read_again(tmp_path: Path) -> None:
    (found,) = _mistakes(tmp_path, ("{topic: dispatch}", "{topic: reports.clean}"))
    assert found.startswith("city.yaml:32: alerts.burst.to.0: reports.clean is no topic to write to: stage clean")
    load(write_emergency(tmp_path, text=YAML.replace("{topic: dispatch}", "{topic: crews}")))


def test_a_topic_may_not_be_one_that_a_stage_writes_in_a_later_version(tmp_path: Path) -> None:
    later = _stage("again: {from: reports, to: {topic: reports.clean.v2}}")
    load(write_emergency(tmp_path, text=YAML.replace(*later)))
    (found,) = _mistakes(tmp_path, later, ("version: 1", "version: 2"))
    assert found.startswith("city.yaml:15: stage clean may not write topic reports.clean.v2: stage again writes it")


@pytest.mark.parametrize(
    ("declared", "line"),
    [
        (("stages:\n", "stages:\n  reports-input: {from: clean, sql: SELECT * FROM clean}\n"), 9),
        (("tables:\n", "tables:\n  reports-input: {topic: more, schema: crews.ddl, key: district}\n"), 7),
    ],
)
def test_a_name_that_a_source_stage_gets_is_taken(tmp_path: Path, declared: tuple[str, str], line: int) -> None:
    found = _mistakes(tmp_path, declared, _sink("{from: reports, topic: copies}"))
    assert found == [f"city.yaml:{line}: the name reports-input is taken: the source stage of reports has it"]


def test_a_name_that_the_quarantine_of_a_table_gets_is_taken(tmp_path: Path) -> None:
    table = ("key: district}", "key: district, on_error: quarantine}")
    found = _mistakes(
        tmp_path, table, ("stages:\n", "stages:\n  crews-input: {from: clean, sql: SELECT * FROM clean}\n")
    )
    assert found == ["city.yaml:9: the name crews-input is taken: the source stage of crews has it"]


def test_an_intake_whose_topic_is_a_source_says_how_it_gets_another(tmp_path: Path) -> None:
    (found,) = _mistakes(
        tmp_path,
        ("tables:\n", "  more: {topic: emergency.reports-input, schema: crews.ddl}\ntables:\n"),
        _sink("{from: reports, topic: copies}"),
    )
    assert found == (
        "city.yaml:25: the source stage of reports may not write topic emergency.reports-input: source more reads it. "
        "Read reports by way of a stage without code that names another with `to`."
    )


def test_a_sink_does_not_have_the_name_of_an_alert(tmp_path: Path) -> None:
    found = _mistakes(tmp_path, _sink("{from: clean, lake: lake/more, name: alert-burst}"))
    assert found == ["city.yaml:24: the name alert-burst is taken: that of alert burst is the same"]


@pytest.mark.parametrize(
    ("name", "of"), [("outlet-alert-burst", "alert burst"), ("outlet-clean-lake-reports", "sink clean-lake-reports")]
)
def test_a_stage_does_not_have_the_name_of_an_outlets_query(tmp_path: Path, name: str, of: str) -> None:
    found = _mistakes(tmp_path, _stage(f"{name}: {{from: clean, sql: SELECT * FROM clean}}"))
    assert found == [f"city.yaml:16: the name {name} is taken: the query of {of} has it"]


def test_sql_does_not_read_two_whose_names_differ_in_capitals_alone(tmp_path: Path) -> None:
    more = "{from: reports, to: {topic: more}}"
    found = _mistakes(tmp_path, _stage(f"Clean: {more}\n  both: {{sql: 'SELECT * FROM Clean, clean, `clean`'}}"))
    assert found == ["city.yaml:17: stage both reads several as clean: SQL ignores case"]
