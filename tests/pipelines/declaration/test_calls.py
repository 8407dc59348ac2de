"""The calls of the Python form: their options are those of the specification, and a wrong call is a mistake with its line."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from pydantic import BaseModel
from tests.pipelines.emergency import PYTHON, write_emergency
from typer.testing import CliRunner

import catchment.pipelines
from catchment.cli.app import app
from catchment.pipelines import Mistakes, Pipeline, check, env, lake, mail, store, topic, webhook
from catchment.pipelines.declaration import specification
from catchment.pipelines.declaration.loading import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TREE: Final = {
    "pipeline": "all",
    "version": 2,
    "parallelism": 3,
    "servers": "a:1",
    "kafka": {"security.protocol": "SSL"},
    "trigger": "1 s",
    "retention": "7 days",
    "smtp": "smtp://mail",
    "sources": {
        "in": {
            "topic": "in",
            "format": "csv",
            "schema": "id string, at timestamp",
            "delimiter": ";",
            "on_error": "drop",
            "event_time": "at",
            "lateness": "1 s",
            "ahead": "1 minute",
            "start": "latest",
        },
        "plain": {"topic": "plain.in", "schema": "id string"},
    },
    "tables": {"kept": {"topic": "kept", "format": "protobuf", "registry": "http://r", "message": "M", "key": ["id"]}},
    "stages": {
        "clean": {
            "from": ["in"],
            "dedupe": "id",
            "checks": [{"expect": "id > 1", "otherwise": "drop", "stop_above": "1%"}, {"expect": "id < 9"}],
            "to": {"topic": "clean", "key": "id", "partitions": 2, "format": "json"},
        },
        "counted": {
            "from": ["clean", "kept"],
            "sql": "SELECT 1",
            "mode": "update",
            "key": ["id"],
            "event_time": "at",
            "lateness": "0 s",
            "checks": [],
        },
        "copied": {"from": ["clean"], "checks": [], "function": "copied"},
    },
    "sinks": [
        {"from": "counted", "store": "sqlite:///a.db", "table": "t", "key": "id", "ttl": "1 d", "window_end": "end"},
        {"from": "clean", "lake": "l", "format": "parquet", "partition_by": "id", "every": "9 s", "name": "files"},
        {"from": "in", "topic": "copies"},
    ],
    "alerts": {
        "many": {
            "from": "counted",
            "to": [{"topic": "out", "key": "id"}, {"webhook": "${HOOK}"}, {"mail": "a@b.org"}],
            "when": "id > 5",
            "key": "id",
            "cooldown": "1 s",
            "message": "{id}",
            "trigger": "micro-batch",
        },
        "silent": {"from": "clean", "to": [{"topic": "out"}], "absent_for": "5 s", "key": ["id"]},
    },
}
"""What `_all_options` declared when every call took any keyword: checkpoints and plans were made of it."""


def _all_options() -> Pipeline:
    made = Pipeline(
        "all",
        version=2,
        parallelism=3,
        servers="a:1",
        kafka={"security.protocol": "SSL"},
        trigger="1 s",
        retention="7 days",
        smtp="smtp://mail",
    )
    read = topic("in", format="csv", schema="id string, at timestamp", delimiter=";")
    source = made.source(read, event_time="at", lateness="1 s", ahead="1 minute", start="latest", on_error="drop")
    made.source(topic("plain.in", schema="id string"), name="plain")
    kept = made.table(topic("kept", format="protobuf", registry="http://r", message="M"), key=["id"])
    checks = [check("id > 1", otherwise="drop", stop_above="1%"), check("id < 9")]
    written = topic("clean", key="id", partitions=2, format="json")
    clean = made.stage("clean", source, dedupe="id", checks=checks, to=written)
    counted = made.stage(
        "counted", clean, kept, sql="SELECT 1", mode="update", key=["id"], event_time="at", lateness="0 s"
    )

    @made.stage(clean)
    def copied(clean: DataFrame) -> DataFrame:
        return clean

    made.sink(counted, store("sqlite:///a.db", table="t", key="id", ttl="1 d", window_end="end"))
    made.sink(clean, lake("l", format="parquet", partition_by="id", every="9 s"), name="files")
    made.sink(source, topic("copies"))
    to = [topic("out", key="id"), webhook(env("HOOK")), mail("a@b.org")]
    made.alert(counted, "many", when="id > 5", key="id", cooldown="1 s", message="{id}", trigger="micro-batch", to=to)
    made.alert(clean, "silent", absent_for="5 s", key=["id"], to=topic("out"))
    return made


def _as_json(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True, default=lambda function: function.__name__)


def test_what_is_declared_is_what_was_given_and_nothing_else() -> None:
    assert _as_json(_all_options().declared.tree) == _as_json(_TREE)


def _fields(*declarations: type[BaseModel]) -> set[str]:
    fields = {field.alias or name for one in declarations for name, field in one.model_fields.items()}
    return fields - {"from", "topic", "pipeline", "sources", "tables", "stages", "sinks", "alerts"}


def _options(call: Callable[..., Any]) -> set[str]:
    return {name for name, one in inspect.signature(call).parameters.items() if one.kind is one.KEYWORD_ONLY}


CALLS: Final[dict[str, tuple[Callable[..., Any], set[str]]]] = {
    "Pipeline": (Pipeline.__init__, _fields(specification.PipelineSpecification)),
    "topic": (topic, _fields(specification.TopicIn, specification.StageTopic)),
    "source": (Pipeline.source, _fields(specification.Source) | {"name"}),
    "table": (Pipeline.table, _fields(specification.Table) - _fields(specification.TopicIn) | {"name"}),
    "stage": (Pipeline.stage, _fields(specification.Stage)),
    "check": (check, _fields(specification.Check) - {"expect"}),
    "store": (store, _fields(specification.StoreSink) - {"store", "name"}),
    "lake": (lake, _fields(specification.LakeSink) - {"lake", "name"}),
    "sink": (Pipeline.sink, {"name"}),
    "alert": (Pipeline.alert, _fields(specification.Alert)),
    "webhook": (webhook, _fields(specification.Webhook) - {"webhook"}),
    "mail": (mail, _fields(specification.Mail) - {"mail"}),
    "env": (env, set()),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_options_of_a_call_are_those_of_the_specification(name: str) -> None:
    call, fields = CALLS[name]
    assert _options(call) == fields


@pytest.mark.parametrize("name", CALLS)
def test_every_parameter_is_documented_and_no_other(name: str) -> None:
    call, _ = CALLS[name]
    documentation = inspect.getdoc(Pipeline if name == "Pipeline" else call) or ""
    arguments = documentation.partition("Args:\n")[2].partition("\n\n")[0]
    documented = re.findall(r"^    \*?(\w+): \S", arguments, re.MULTILINE)
    assert sorted(documented) == sorted(set(inspect.signature(call).parameters) - {"self"})
    assert "Examples:\n" in documentation


def test_every_public_name_can_be_imported() -> None:
    for name in catchment.pipelines.__all__:
        assert getattr(catchment.pipelines, name).__module__.startswith("catchment.pipelines.")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(catchment.pipelines, "no" + "thing")
    assert (Path(catchment.pipelines.__file__).parents[1] / "py.typed").is_file()


def _mistakes(folder: Path, text: str) -> list[str]:
    file = write_emergency(folder, suffix=".py", text=text)
    with pytest.raises(Mistakes) as raised:
        load(file)
    return [str(one).replace(str(file), file.name) for one in raised.value.found]


def test_options_that_do_not_exist_are_reported_together_with_their_lines(tmp_path: Path) -> None:
    wrong = (
        PYTHON.replace("parallelism=4", "paralelism=4")
        .replace('on_error="quarantine"', 'on_eror="quarantine"')
        .replace('lateness="20 seconds"', 'lateness="soon"')
        .replace("stop_above=", "stop_over=")
        .replace('mode="update", ', 'mood="update", ')
        .replace("ttl=", "zzz=")
    )
    found = _mistakes(tmp_path, wrong)
    assert found == [
        "city.py:3: Pipeline() has no option paralelism; did you mean parallelism?",
        "city.py:5: topic() has no option on_eror; did you mean on_error?",
        "city.py:5: sources.reports.lateness: 'soon' is no length of time; write it like '20 seconds' or '5 minutes'",
        "city.py:11: check() has no option stop_over; did you mean stop_above?",
        "city.py:14: stage() has no option mood; did you mean mode?",
        "city.py:21: store() has no option zzz; check its spelling",
    ]


def test_options_that_are_missing_are_reported_with_their_lines(tmp_path: Path) -> None:
    wrong = PYTHON.replace(', key="district")\n\nclean', ")\n\nclean").replace('table="board", ', "")
    wrong = wrong.replace(' key=["district"], cooldown', " cooldown")
    assert _mistakes(tmp_path, wrong) == [
        "city.py:7: tables.crews.key: missing",
        "city.py:21: sinks.0.table: missing",
        "city.py:23: alerts.burst.key: missing",
    ]


def test_things_in_the_wrong_place_are_reported_with_their_lines(tmp_path: Path) -> None:
    more = """\
city.sink(topic("a"), lake("a"))
city.sink(clean, check("a > 1"))
city.stage("other", store("sqlite:///a.db", table="a"), to=lake("a"), checks="a > 1", sql="SELECT 1 FROM clean")
city.alert(clean, "never", when="true", key="id", to=[lake("a"), 5])
"""
    assert _mistakes(tmp_path, PYTHON + more) == [
        "city.py:25: a sink reads a source or a stage, not a OutputTopic",
        "city.py:26: a sink writes to a store, a lake or a topic, not a Check",
        "city.py:27: a stage reads sources, tables and stages, not a Store",
        "city.py:27: a stage writes to a topic, not a Lake",
        "city.py:27: the checks of a stage are made by check(), not a str",
        "city.py:28: an alert goes to a topic, a webhook or a mail address, not a Lake",
        "city.py:28: an alert goes to a topic, a webhook or a mail address, not a int",
    ]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('city.source(lake("a"))', "TypeError: sources are read from a topic, not from a Lake"),
        ("city.sink(clean)", "TypeError: Pipeline.sink() missing 1 required positional argument: 'to'"),
    ],
)
def test_a_call_that_python_refuses_has_its_line(tmp_path: Path, call: str, said: str) -> None:
    assert _mistakes(tmp_path, f"{PYTHON}{call}\n") == [f"city.py:25: {said}"]


def test_a_command_ends_with_2_for_an_unknown_option(tmp_path: Path) -> None:
    file = write_emergency(tmp_path, suffix=".py", text=PYTHON.replace("ttl=", "tll="))
    result = CliRunner().invoke(app, ["pipeline", "graph", str(file)])
    assert result.exit_code == 2
    assert f"{file}:21: store() has no option tll; did you mean ttl?" in result.output


def test_the_function_of_a_stage_can_be_called_alone() -> None:
    city = Pipeline("city")
    reports = city.source(topic("reports", schema="id string"))

    @city.stage(reports)
    def board(reports: Any) -> Any:
        """Reports, as they are."""
        return [*reports, "more"]

    assert board(["one"]) == ["one", "more"]
    assert (board.name, board.__doc__) == ("board", "Reports, as they are.")
    assert list(inspect.signature(board).parameters) == ["reports"]
    assert city.declared.tree["stages"]["board"]["function"] is board.__wrapped__
    city.sink(board, topic("boards"))
    assert city.check().sinks[0].from_ == "board"
