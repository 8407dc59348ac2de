"""Which queries a declared pipeline becomes, and which topics lie between them."""

from __future__ import annotations

from pathlib import Path

from tests.pipelines.emergency import PYTHON, YAML, write_emergency

from catchment.pipelines.declaration.loading import load
from catchment.pipelines.declaration.specification import LakeSink
from catchment.pipelines.graph import Graph


def _graph(folder: Path, text: str = YAML, **versions: int) -> Graph:
    return Graph(load(write_emergency(folder, text=text)).specification, versions)


def test_both_forms_become_the_same_queries(tmp_path: Path) -> None:
    of_yaml = _graph(tmp_path)
    of_python = Graph(load(write_emergency(tmp_path, suffix=".py")).specification)
    assert of_yaml.order == of_python.order
    assert of_yaml.source_stages == of_python.source_stages
    assert [one.inputs for one in of_yaml.processing_stages.values()] == [
        one.inputs for one in of_python.processing_stages.values()
    ]
    assert of_yaml.sinks == of_python.sinks


def test_a_stage_without_code_is_an_intake_and_each_sink_and_alert_a_query(tmp_path: Path) -> None:
    graph = _graph(tmp_path)
    assert graph.order == [["clean"], ["outlet-board-store-board", "outlet-clean-lake-reports", "outlet-alert-burst"]]
    assert graph.source_stages["clean"].boundary.topic == "reports.clean"
    assert graph.processing_stages["board"].boundary is None, "its sinks compute it"
    assert graph.sinks["alert-burst"].reads == "board"


def test_a_table_whose_broken_records_are_quarantined_has_a_query_for_them_in_both_forms(tmp_path: Path) -> None:
    for suffix, text, before in ((".yaml", YAML, "schema: crews.ddl"), (".py", PYTHON, 'schema="crews.ddl"')):
        between = (": ", "") if suffix == ".yaml" else ("=", '"')
        queries = {
            kind: Graph(
                load(write_emergency(tmp_path, suffix=suffix, text=text.replace(before, said))).specification
            ).order[0]
            for kind in ("fail", "drop", "quarantine")
            for said in [f"{before}, on_error{between[0]}{between[1]}{kind}{between[1]}"]
        }
        assert queries == {"fail": ["clean"], "drop": ["clean"], "quarantine": ["crews-input", "clean"]}


def test_a_stage_that_another_reads_has_a_topic_before_it(tmp_path: Path) -> None:
    alarm = "  alarm: {from: board, sql: SELECT * FROM board WHERE count > 9}\nsinks:\n  - {from: alarm, topic: alarms, key: district}"
    graph = _graph(tmp_path, YAML.replace("sinks:", alarm))
    assert graph.order[:2] == [["clean"], ["board"]]
    board = graph.boundary("board")
    assert board is not None
    assert (board.topic, board.key, board.is_changelog) == ("emergency.board", ("district", "start"), True)
    assert graph.sinks["alarm-topic-alarms"].reads == "alarm"


def test_code_that_reads_a_source_with_event_time_gets_an_intake(tmp_path: Path) -> None:
    counts = "  counts: {from: reports, sql: SELECT count(*) FROM reports}\nsinks:\n  - {from: counts, topic: counts}"
    graph = _graph(tmp_path, YAML.replace("sinks:", counts))
    assert graph.processing_stages["counts"].inputs == ("reports-input",)
    assert graph.processing_stages["counts"].names == ("reports",)
    assert graph.source_stages["reports-input"].boundary.topic == "emergency.reports-input"


def test_code_that_reads_a_plain_source_reads_its_topic(tmp_path: Path) -> None:
    plain = YAML.replace("on_error: quarantine, event_time: at, lateness: 20 seconds", "start: latest").replace(
        "    dedupe: id\n", ""
    )
    counts = "  counts: {from: reports, sql: SELECT count(*) FROM reports}\nsinks:\n  - {from: counts, topic: counts}"
    graph = _graph(tmp_path, plain.replace("sinks:", counts))
    assert graph.processing_stages["counts"].inputs == ("reports",)


def test_a_stage_passes_rows_on_as_late_as_they_came_unless_it_says_otherwise(tmp_path: Path) -> None:
    stages = """\
  staffed: {from: [clean, crews], sql: SELECT * FROM clean JOIN crews USING (district), event_time: at}
  ordered: {from: staffed, sql: SELECT * FROM staffed, event_time: at, lateness: 0 seconds}
  last: {from: ordered, sql: SELECT * FROM ordered}
sinks:
  - {from: last, topic: last}"""
    graph = _graph(tmp_path, YAML.replace("sinks:", stages))
    assert [(one.topic, one.lateness_ms) for one in graph.topics()] == [
        ("reports.clean", 20_000),
        ("emergency.staffed", 20_000),
        ("emergency.ordered", 0),
    ]


def test_a_sink_is_named_by_what_it_writes_to_wherever_it_stands(tmp_path: Path) -> None:
    sinks = [
        '{from: clean, lake: "${LAKES}/reports/"}',
        '{from: clean, lake: "s3://city/other.reports"}',
        "{from: clean, lake: lake/third, name: third}",
        "{from: clean, topic: reports.copies}",
        '{from: clean, store: "redis://localhost", table: seen}',
    ]
    text, _, alerts = YAML.partition("sinks:")
    alerts = alerts[alerts.index("alerts:") :]
    names = []
    for order in (sinks, sinks[::-1]):
        graph = _graph(tmp_path, "\n  - ".join([text + "sinks:", *order]) + "\n" + alerts)
        names.append([one for one in graph.sinks if not one.startswith("alert")])
    assert names[0] == [
        "clean-lake-reports",
        "clean-lake-other-reports",
        "third",
        "clean-topic-reports-copies",
        "clean-store-seen",
    ]
    assert names[1] == names[0][::-1]


def test_sinks_that_would_have_one_name_are_numbered_and_a_name_that_was_given_stays(tmp_path: Path) -> None:
    more = (
        "sinks:\n  - {from: clean, lake: eu/reports}\n  - {from: clean, lake: us/reports, name: clean-lake-reports-2}"
    )
    graph = _graph(tmp_path, YAML.replace("sinks:", more))
    sinks = graph.sinks.items()
    assert {name: one.target.lake for name, one in sinks if isinstance(one.target, LakeSink)} == {
        "clean-lake-reports": "eu/reports",
        "clean-lake-reports-2": "us/reports",
        "clean-lake-reports-3": "lake/reports",
    }


def test_a_long_name_is_cut_and_still_tells_sinks_apart(tmp_path: Path) -> None:
    more = f"sinks:\n  - {{from: clean, topic: {'x' * 200}}}\n  - {{from: clean, topic: {'x' * 201}}}"
    graph = _graph(tmp_path, YAML.replace("sinks:", more))
    first, second = [name for name in graph.sinks if "xxx" in name]
    assert first[:50] == second[:50]
    assert max(len(first), len(second)) <= 60


def test_a_query_that_started_from_scratch_writes_to_a_topic_of_its_own(tmp_path: Path) -> None:
    clean = _graph(tmp_path, clean=2).boundary("clean")
    assert clean is not None
    assert clean.topic == "reports.clean.v2"


def test_a_lake_is_written_seldom_and_timers_are_looked_at_every_second(tmp_path: Path) -> None:
    graph = _graph(tmp_path)
    queries = ("clean", "outlet-board-store-board", "outlet-clean-lake-reports", "outlet-alert-burst")
    assert [graph.trigger_ms(one) for one in queries] == [200, 200, 5_000, 200]
    slow = _graph(tmp_path, YAML.replace("version: 1", "version: 1\ntrigger: 7 s"))
    assert slow.trigger_ms("outlet-clean-lake-reports") == 7_000
    often = _graph(tmp_path, YAML.replace("lake: lake/reports", "lake: lake/reports, every: 1 s"))
    assert often.trigger_ms("outlet-clean-lake-reports") == 1_000
    stage = "stages:\n  clean-lake-reports: {from: reports, to: {topic: copies}}"
    alike = _graph(tmp_path, YAML.replace("stages:", stage))
    assert [alike.trigger_ms(one) for one in ("clean-lake-reports", "outlet-clean-lake-reports")] == [200, 5_000]
    absence = _graph(tmp_path, YAML.replace("when: count > 40 AND crew < 3", "absent_for: 5 minutes"))
    assert absence.trigger_ms("outlet-alert-burst") == 1_000


def test_rows_have_the_key_of_their_stage_or_else_that_of_its_topic(tmp_path: Path) -> None:
    stages = """\
  kept: {from: reports, key: id}
  both: {from: reports, key: id, to: {topic: both, key: district}}
  told: {from: clean, sql: SELECT * FROM clean, to: {topic: told, key: kind}}
  read: {from: clean, sql: SELECT * FROM clean, key: id}
  last: {from: read, sql: SELECT * FROM read, key: kind}
sinks:
  - {from: reports, topic: copies}"""
    graph = _graph(tmp_path, YAML.replace("sinks:", stages))
    names = ("clean", "board", "kept", "both", "told", "read", "last", "reports-input", "reports")
    assert {name: graph.key_of(name) for name in names} == {
        "clean": ("district",),
        "board": ("district", "start"),
        "kept": ("id",),
        "both": ("id",),
        "told": ("kind",),
        "read": ("id",),
        "last": ("kind",),
        "reports-input": (),
        "reports": (),
    }
    keys = {one.topic: one.key for one in graph.topics()}
    assert (keys["emergency.kept"], keys["both"], keys["emergency.read"]) == (("id",), ("district",), ("id",))


def test_a_topic_is_a_changelog_if_its_key_tells_the_rows_apart(tmp_path: Path) -> None:
    def is_changelog(to: str) -> bool:
        text = YAML.replace("    mode: update", f"    mode: update\n    to: {to}")
        boundary = _graph(tmp_path, text).boundary("board")
        assert boundary is not None
        return boundary.is_changelog

    assert is_changelog("{topic: boards}")
    assert is_changelog("{topic: boards, key: [start, district, count]}")
    assert not is_changelog("{topic: boards, key: district}"), "windows of a district would replace each other"
