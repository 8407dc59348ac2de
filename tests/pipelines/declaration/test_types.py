"""mypy accepts right declarations of a pipeline and reports wrong ones, as an editor does."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
_HEAD: Final = """\
from pyspark.sql import DataFrame
from catchment.pipelines import Pipeline, check, env, lake, mail, store, topic, webhook

city = Pipeline("city", version=1, kafka={"security.protocol": "SSL"})
reports = city.source(topic("reports", schema="id string, at timestamp"), event_time="at", lateness="20 seconds")
crews = city.table(topic("crews", registry="http://127.0.0.1:8081"), key=["district"])
clean = city.stage("clean", reports, dedupe="id", to=topic("clean", format="json"))


@city.stage(clean, crews, mode="update", key="district")
def board(clean: DataFrame, crews: DataFrame) -> DataFrame:
    return clean.join(crews, "district")


"""
RIGHT: Final = (
    'lines = city.source(topic("lines", format="text", on_error="drop"), start="latest")',
    'more = city.stage("more", board, crews, sql="SELECT 1", checks=[check("a > 1", otherwise="stop", stop_above="1%")])',
    "again: DataFrame = board(reports_rows, crews_rows)",
    "wrapped: DataFrame = board.__wrapped__(reports_rows, crews_rows)",
    'made = city.stage("made", clean, function=board.__wrapped__)',
    'city.sink(board, store("sqlite:///city.db", table="board", key=("district",), ttl="1 year"), name="board")',
    'city.sink(reports, lake("lake", format="parquet", partition_by="date(at)", every="1 minute"))',
    'city.sink(clean, topic("copies", key="id", partitions=2))',
    'city.alert(board, "burst", when="n > 1", key="district", to=[topic("dispatch"), webhook(env("HOOK")), mail("a@b.org")])',
    'city.alert(clean, "silent", absent_for="1 minute", key=["district"], to=topic("dispatch"), trigger="realtime")',
)
WRONG: Final = {
    'Pipeline("city", verson=1)': 'Unexpected keyword argument "verson" for "Pipeline"; did you mean "version"?',
    'Pipeline("city", parallelism="4")': 'Argument "parallelism" to "Pipeline" has incompatible type "str"',
    'topic("reports", schema="id string", fromat="csv")': 'No overload variant of "topic" matches',
    'topic("reports", schema="id string", format="jason")': 'No overload variant of "topic" matches',
    'topic("reports", schema="id string", on_error="skip")': 'No overload variant of "topic" matches',
    'topic("clean", format="csv", key="id")': 'No overload variant of "topic" matches',
    'city.source(topic("reports"))': 'incompatible type "OutputTopic"; expected "InputTopic"',
    'city.source(store("sqlite:///a.db", table="a"))': 'incompatible type "Store"; expected "InputTopic"',
    'city.source(topic("a", schema="id string"), latenes="1 s")': '"latenes" for "source" of "Pipeline"; did you mean "lateness"?',
    'city.source(topic("a", schema="id string"), start="first")': 'Argument "start" to "source" of "Pipeline" has incompatible type',
    'city.table(topic("crews", schema="id string"))': 'Missing named argument "key" for "table" of "Pipeline"',
    'city.stage("a", clean, mood="update")': 'No overload variant of "stage" of "Pipeline" matches',
    'city.stage("a", clean, mode="complete")': 'No overload variant of "stage" of "Pipeline" matches',
    'city.stage("a", topic("b"))': 'No overload variant of "stage" of "Pipeline" matches',
    'city.stage("a", clean, checks="a > 1")': 'Argument "checks" to "stage" of "Pipeline" has incompatible type "str"',
    'city.stage("a", clean, to=topic("a", schema="id string"))': 'No overload variant of "stage" of "Pipeline" matches',
    'city.stage("a", clean, to=lake("a"))': 'No overload variant of "stage" of "Pipeline" matches',
    'city.stage(clean, sql="SELECT 1")': 'No overload variant of "stage" of "Pipeline" matches',
    "board(reports_rows)": 'Missing positional argument "crews" in call to "__call__" of "FunctionStage"',
    'board("clean", "crews")': 'to "__call__" of "FunctionStage" has incompatible type "str"; expected "DataFrame"',
    "city.stage(clean)(lambda rows: 1)": 'Value of type variable "Rows" of function cannot be "int"',
    'city.sink(topic("a"), lake("a"))': 'incompatible type "OutputTopic"; expected "Source | Stage"',
    'city.sink(crews, lake("a"))': 'incompatible type "Table"; expected "Source | Stage"',
    'city.sink(clean, check("a > 1"))': 'incompatible type "Check"; expected "Store | Lake | OutputTopic"',
    'city.sink(clean, topic("a", format="json"))': 'incompatible type "StageTopic"; expected "Store | Lake | OutputTopic"',
    'city.sink(clean, webhook("http://a"))': 'incompatible type "Webhook"; expected "Store | Lake | OutputTopic"',
    'store("sqlite:///a.db", tabel="a")': 'Unexpected keyword argument "tabel" for "store"; did you mean "table"?',
    'store("sqlite:///a.db", table="a", ttl=60)': 'Argument "ttl" to "store" has incompatible type "int"',
    'lake("a", format="iceberg")': 'Argument "format" to "lake" has incompatible type',
    'check("a > 1", otherwise="explode")': 'Argument "otherwise" to "check" has incompatible type',
    'city.alert(clean, "a", when="n > 1", to=topic("a"))': 'Missing named argument "key" for "alert" of "Pipeline"',
    'city.alert(clean, "a", when="n > 1", key="id", to=lake("a"))': 'Argument "to" to "alert" of "Pipeline" has incompatible type',
    'city.alert(clean, "a", when="n > 1", key="id", to=topic("a"), trigger="now")': 'Argument "trigger" to "alert"',
}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What one run of mypy reports of all calls, by line; first the right ones, then the wrong ones."""
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    folder = tmp_path_factory.mktemp("typed")
    file = folder / "typed_city.py"
    rows = "def call(reports_rows: DataFrame, crews_rows: DataFrame) -> None:\n"
    file.write_text(_HEAD + rows + "".join(f"    {one}\n" for one in (*RIGHT, *WRONG)))
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    # mypy raises the limit of its process, which is that of all tests.
    limit = sys.getrecursionlimit()
    try:
        output, errors, _ = api.run([*settings, "--hide-error-context", str(file)])
    finally:
        sys.setrecursionlimit(limit)
    assert not errors
    found: dict[int, str] = {}
    for line, text in re.findall(r"typed_city\.py:(\d+): error: (.*)", output):
        found[int(line)] = f"{found.get(int(line), '')}{text}\n"
    return found


def _line(call: str) -> int:
    return _HEAD.count("\n") + 2 + [*RIGHT, *WRONG].index(call)


def test_right_declarations_pass(reported: dict[int, str]) -> None:
    first_wrong = _line(next(iter(WRONG)))
    assert {line: text for line, text in reported.items() if line < first_wrong} == {}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_declaration_is_reported(reported: dict[int, str], call: str) -> None:
    assert WRONG[call] in reported.get(_line(call), "")
