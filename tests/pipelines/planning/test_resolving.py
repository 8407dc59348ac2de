"""Every column that a pipeline names is resolved when it is planned, and all that is wrong is reported at once, each with its line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.client.logs import CatchmentLogs
from tests.pipelines.planning.mistaken import Slip, place_of, slips, write_meant, write_mistaken

from catchment.pipelines.declaration.loading import load
from catchment.pipelines.errors import Mistakes
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_S = 290
_ROOT = Path(__file__).parents[3]
_EXAMPLES = sorted((_ROOT / "src" / "catchment" / "applications").glob("*/pipeline.py"))
_SOURCES = """\
pipeline: shop
sources:
  orders: {topic: orders, schema: "id string, shop string, amount int, at timestamp", event_time: at, lateness: 20 seconds}
stages:
  board:
    from: orders
    mode: update
    key: [shop, start]
    event_time: start
    sql: SELECT shop, w.start, w.end, n FROM (SELECT shop, window(at, '10 seconds') w, count(*) n FROM orders GROUP BY 1, 2)
"""
_STORE = "  - {from: %s, store: 'sqlite:///shop.db', table: %s}\n"


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory, catchment_logs: CatchmentLogs) -> list[str]:
    """What `catchment pipeline plan` prints of a file with all of the mistakes: one Spark for all of them."""
    folder = tmp_path_factory.mktemp("shop")
    command = [sys.executable, "-m", "catchment.cli", "pipeline", "plan", str(write_mistaken(folder))]
    options = ["--home", str(folder / "home"), "--bootstrap-server", catchment_logs.bootstrap_servers]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert not (folder / "home").exists()
    return done.stderr.replace(f"{folder}/", "").splitlines()


def test_nothing_but_the_mistakes_is_printed_each_once(planned: list[str]) -> None:
    assert all(line.startswith("error: ") for line in planned), planned
    assert len(set(planned)) == len(planned) == len(slips())


@pytest.mark.parametrize("slip", slips(), ids=lambda slip: slip.written)
def test_every_mistake_of_the_reference_is_reported_with_its_line(planned: list[str], slip: Slip) -> None:
    assert [line for line in planned if line.startswith(f"error: {place_of(slip)}: ") and slip.reported in line], (
        planned
    )


def test_what_is_meant_is_not_refused(spark: SparkSession, tmp_path: Path) -> None:
    assert _mistakes(spark, write_meant(tmp_path)) == []


@pytest.mark.parametrize("file", _EXAMPLES, ids=lambda file: file.parent.name)
def test_no_example_is_refused(spark: SparkSession, file: Path) -> None:
    assert _mistakes(spark, file) == []


@pytest.mark.parametrize("page", ["pipelines", "event-time"])
def test_no_stage_of_the_guide_is_refused(spark: SparkSession, tmp_path: Path, page: str) -> None:
    text = (_ROOT / "docs" / "guide" / f"{page}.md").read_text(encoding="utf-8")
    file = tmp_path / "city.py"
    file.write_text("\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)))
    assert _mistakes(spark, file) == []


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("sql: SELECT shop, sum(n) AS n FROM board GROUP BY shop", "an aggregation would count every revision"),
        ("sql: SELECT DISTINCT shop, n FROM board", "a deduplication would keep the first revision"),
        ("sql: SELECT shop, n FROM board LIMIT 5", "a limit would count every revision"),
        (
            "sql: SELECT shop, n FROM board JOIN orders USING (shop) WHERE at BETWEEN start AND end",
            "a join of streams would give a row for every revision",
        ),
    ],
)
def test_state_over_revisions_is_refused_and_the_way_out_is_reported(
    spark: SparkSession, tmp_path: Path, stage: str, said: str
) -> None:
    reads = "[board, orders]" if "JOIN" in stage else "board"
    file = _file(tmp_path, f"  totals:\n    from: {reads}\n    mode: update\n    key: shop\n    {stage}\n", "totals")
    [found] = _mistakes(spark, file)
    assert found.startswith("shop.yaml:11: stages.totals: stage board is in mode update, and gives a row again")
    assert said in found
    assert found.endswith(
        "Set the mode of board to append, which gives each row once, or compute totals from what board reads"
    )


def test_revisions_that_are_passed_on_are_revisions_still(spark: SparkSession, tmp_path: Path) -> None:
    between = "  large: {from: board, key: [shop, start], sql: SELECT * FROM board WHERE n > 10}\n"
    totals = (
        "  totals: {from: large, mode: update, key: shop, sql: 'SELECT shop, max(n) AS n FROM large GROUP BY shop'}\n"
    )
    [found] = _mistakes(spark, _file(tmp_path, between + totals, "totals"))
    assert "shop.yaml:12: stages.totals: stage large passes on the rows of board, which is in mode update" in found
    assert _mistakes(spark, _file(tmp_path, between, "large")) == []


def test_a_broken_stage_hides_only_what_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    stages = """\
  broken: {from: orders, sql: SELECT nonsense FROM orders}
  after: {from: broken, sql: SELECT more FROM broken}
  beside: {from: orders, sql: SELECT shpo FROM orders}
"""
    found = _mistakes(spark, _file(tmp_path, stages, "after"))
    assert [one.partition(": there")[0] for one in found] == [
        "shop.yaml:11: stages.broken.sql",
        "shop.yaml:13: stages.beside.sql",
    ]


def test_mistakes_in_python_have_the_lines_of_their_calls(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text('''\
from catchment.pipelines import Pipeline, check, lake, store, topic

shop = Pipeline("shop")
orders = shop.source(topic("orders", schema="id string, amount int, at timestamp"), event_time="at", lateness="20 seconds")
clean = shop.stage("clean", orders, dedupe="id",
                   checks=[check("amount > 0"),
                           check("amnt > 1")])

@shop.stage(clean)
def doubled(clean):
    from pyspark.sql import functions as F

    twice = clean.withColumn("twice", F.col("amount") * 2)
    return twice.select("id", "twise")

@shop.stage(clean)
def attributed(clean):
    return clean.select(clean.amonut)

@shop.stage(clean)
def both(clean, more):
    return clean

text = shop.stage("text", clean, sql="""
    SELECT id,
           amout
    FROM clean
""")
shop.sink(clean, lake("lake", partition_by="date(att)"))
shop.alert(clean, "large", when="amount > 3", key="it", to=topic("dispatch"))
''')
    found = _mistakes(spark, file)
    assert [one.partition(": ")[0] for one in found] == [f"shop.py:{line}" for line in (7, 14, 18, 20, 24, 29, 30)]
    assert "stages.doubled.function: there is no column twise; did you mean twice?" in found[1]
    assert "stages.attributed.function: a DataFrame has no column or method amonut" in found[2]
    assert "stages.both.function: TypeError: both() missing 1 required positional argument" in found[3]
    assert found[4].endswith("stages.text.sql: there is no column amout; did you mean amount? (line 3 of its SQL)")


def test_a_source_that_only_spark_reads_is_resolved_with_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("""\
pipeline: shop
sources:
  lines: {topic: lines, format: text, on_error: quarantine}
stages:
  clean: {from: lines, checks: {expect: length(value) > 3}, to: {topic: clean, key: vale}}
sinks:
  - {from: lines, lake: lake, partition_by: [length(vale) AS length]}
""")
    assert [one.partition("; ")[0] for one in _mistakes(spark, file)] == [
        "shop.yaml:5: stages.clean.to.key: stage clean has no column vale",
        "shop.yaml:7: sinks.0.partition_by: length(vale): source lines has no column vale",
    ]


def test_an_alert_by_absence_has_the_columns_that_its_checks_know() -> None:
    from catchment.pipelines.alerts.absence import ABSENT_MS, LAST_SEEN
    from catchment.pipelines.checks.columns import SILENCE

    assert SILENCE == (LAST_SEEN, ABSENT_MS)


def test_a_run_reports_them_before_it_makes_a_topic(spark: SparkSession, tmp_path: Path) -> None:
    from catchment.pipelines.driving.driven_run import DrivenRun
    from catchment.pipelines.driving.driver_options import DriverOptions
    from catchment.pipelines.driving.exit_codes import ExitCode
    from catchment.pipelines.driving.failures import classify

    stages = "  broken: {from: orders, sql: SELECT nonsense FROM orders}\n"
    file = _file(tmp_path, stages, "broken")
    # Nothing listens on port 1.
    run = DrivenRun(DriverOptions(file, tmp_path / "home", "local[1]", "127.0.0.1:1"))
    try:
        with pytest.raises(Mistakes) as raised:
            run._built(spark)
    finally:
        run._publisher.close()
    assert str(raised.value).startswith(f"{file}:11: stages.broken.sql: there is no column nonsense")
    failure = classify(raised.value, is_building=True)
    assert failure.exit_code == ExitCode.CONFIGURATION
    assert failure.message.startswith(str(raised.value))


def _file(folder: Path, stages: str, kept: str) -> Path:
    file = folder / "shop.yaml"
    file.write_text(_SOURCES + stages + "sinks:\n" + _STORE % (kept, kept))
    return file


def _mistakes(spark: SparkSession, file: Path) -> list[str]:
    """What is wrong with a file, with Spark or without."""
    from catchment.pipelines.planning.signing import signatures

    try:
        loaded = load(file, is_to_plan=True)
        with loaded.located():
            signatures(spark, Graph(loaded.specification), Home(file.parent / "home", "shop"), loaded.folder)
    except Mistakes as mistakes:
        return [str(one).replace(f"{file.parent}/", "") for one in mistakes.found]
    return []
