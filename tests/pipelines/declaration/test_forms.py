"""Both forms of a pipeline give the same graph, and every mistake is reported at once with its place."""

from __future__ import annotations

import importlib
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from tests.pipelines.emergency import YAML, write_emergency

from catchment.pipelines import Pipeline, store, topic
from catchment.pipelines.declaration.durations import interval, milliseconds
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.errors import Mistakes
from catchment.pipelines.execution.session import carry_modules

_UNITS_MS = {"ms": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}


def _mistakes(file: Path) -> list[str]:
    with pytest.raises(Mistakes) as raised:
        load(file)
    return [str(one).replace(str(file), file.name) for one in raised.value.found]


def _with(folder: Path, text: str, suffix: str = ".yaml") -> list[str]:
    return _mistakes(write_emergency(folder, suffix=suffix, text=text))


def test_both_forms_of_a_pipeline_declare_the_same(tmp_path: Path) -> None:
    of_python = load(write_emergency(tmp_path, suffix=".py")).specification
    of_yaml = load(write_emergency(tmp_path)).specification
    python_board, yaml_board = of_python.stages["board"], of_yaml.stages["board"]
    assert python_board.function is not None
    assert yaml_board.sql is not None
    assert python_board.model_copy(update={"function": None}) == yaml_board.model_copy(update={"sql": None})
    assert of_python.stages["clean"] == of_yaml.stages["clean"]
    assert of_python.model_copy(update={"stages": {}}) == of_yaml.model_copy(update={"stages": {}})


def test_every_mistake_in_yaml_is_reported_at_once_with_its_line(tmp_path: Path) -> None:
    wrong = (
        YAML.replace("lateness: 20 seconds", "lateness: soon")
        .replace("parallelism: 4", "parallelism: 0")
        .replace("mode: update", "mood: update")
        .replace("cooldown: 5 minutes", "cooldown: 5")
        .replace("stop_above: 1%", "stop_above: 200%")
    )
    found = _with(tmp_path, wrong)
    assert [one.split(": ")[0] for one in found] == [f"city.yaml:{line}" for line in (3, 5, 14, 17, 31)]
    assert "'soon' is no length of time" in found[1]
    assert found[3] == "city.yaml:17: stages.board.mood: unknown; did you mean mode?"


def test_unknown_names_are_reported_together(tmp_path: Path) -> None:
    wrong = YAML.replace("    mode: update", "    from: [cleen, crews]\n    mode: update")
    wrong = wrong.replace("{from: clean, lake", "{from: claen, lake")
    found = _with(tmp_path, wrong)
    assert found == [
        "city.yaml:17: nothing is named cleen; there is clean, crews, reports",
        "city.yaml:26: nothing is named claen; there is board, clean, reports",
    ]


def test_a_key_that_is_given_twice_is_a_mistake(tmp_path: Path) -> None:
    assert _with(tmp_path, YAML.replace("version: 1", "version: 1\nversion: 2")) == [
        "city.yaml:3: version is given twice"
    ]


def test_a_stage_may_not_read_itself(tmp_path: Path) -> None:
    circles = ["  one: {from: two, sql: SELECT 1}", "  two: {from: [one, clean], sql: SELECT 1}"]
    circles += ["  after: {from: two, sql: SELECT 1}", "  self: {from: self, sql: SELECT 1}", "sinks:"]
    found = _with(tmp_path, YAML.replace("sinks:", "\n".join(circles)))
    assert found == [
        "city.yaml:23: stage one reads itself by way of two",
        "city.yaml:24: stage two reads itself by way of one, clean",
        "city.yaml:26: stage self reads itself by way of self",
    ]


def test_what_is_no_yaml_is_reported_with_its_line(tmp_path: Path) -> None:
    found = _with(tmp_path, "pipeline: x\nsources: {a: [}\n")
    assert len(found) == 1
    assert found[0].startswith("city.yaml:2: this is not YAML")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            b"pipeline: x\nservers: !env X\n",
            "2: this is not YAML: could not determine a constructor for the tag '!env'",
        ),
        (b"pipeline: x\nversion: 2024-13-45\n", "2: this is not YAML: month must be in 1..12"),
        (b"pipeline: x\n[a, b]: y\n", "2: this is not YAML: a key is a name"),
        (
            b"pipeline: x\nservers: !env [X]\n",
            "2: this is not YAML: could not determine a constructor for the tag '!env'",
        ),
        (b"pipeline: x\nkafka: {a: &a [*a]}\n", "2: this is not YAML: this is a part of itself"),
        (b"pipeline: x\nservers: M\xfcnchen\n", "2: this is not UTF-8: invalid start byte"),
        (b"pipeline: x\nservers: a\x00b\n", "2: this is not YAML: special characters are not allowed"),
        (b"pipeline: x\nservers: " + b"[" * 2000, "1: this is nested too deeply"),
    ],
)
def test_what_yaml_does_not_allow_is_a_mistake_and_no_failure(tmp_path: Path, text: bytes, said: str) -> None:
    file = tmp_path / "city.yaml"
    file.write_bytes(text)
    assert _mistakes(file) == [f"city.yaml:{said}"]


def test_an_empty_file_says_what_a_pipeline_begins_with(tmp_path: Path) -> None:
    file = tmp_path / "city.yaml"
    file.write_text("")
    assert _mistakes(file) == ["city.yaml:1: a pipeline is a mapping that begins with `pipeline: NAME`"]


def test_mistakes_in_python_have_the_line_of_their_call(tmp_path: Path) -> None:
    wrong = """\
from catchment.pipelines import Pipeline, check, store, topic

city = Pipeline("emergency", parallelism=-1)
reports = city.source(topic("reports", format="jason", schema="id string"), event_time="at")
clean = city.stage(
    "clean",
    reports,
    checks=[
        check("id IS NOT NULL", otherwise="explode"),
    ],
)
city.sink(clean, store("sqlite:///city.db", table="no good"))
"""
    found = _with(tmp_path, wrong, ".py")
    assert [one.split(": ")[0] for one in found] == [f"city.py:{line}" for line in (3, 4, 9, 12)]


def test_an_error_in_a_python_file_has_its_line(tmp_path: Path) -> None:
    found = _with(tmp_path, "import catchment.pipelines\n\nraise RuntimeError('no network')\n", ".py")
    assert found == ["city.py:3: RuntimeError: no network"]
    found = _with(tmp_path, "city = (\n", ".py")
    assert found[0].startswith("city.py:1: SyntaxError")


def test_a_python_file_makes_one_pipeline(tmp_path: Path) -> None:
    two = "from catchment.pipelines import Pipeline\na = Pipeline('a')\nb = Pipeline('b')\n"
    assert _with(tmp_path, two, ".py") == ["city.py:1: the file makes 2 pipelines instead of one"]
    named_twice = "from catchment.pipelines import Pipeline\na = Pipeline('a')\nb = a\n"
    assert load(write_emergency(tmp_path, suffix=".py", text=named_twice)).specification.pipeline == "a"


def _with_function(function: str) -> str:
    sql = YAML[YAML.index("    sql: |") : YAML.index("sinks:")]
    return YAML.replace(sql, f"    from: [clean, crews]\n    function: {function}\n")


def test_a_function_of_a_file_beside_it_serves_a_yaml_stage(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("def board(clean, crews):\n    return clean\n")
    file = write_emergency(tmp_path, text=_with_function("steps.py:board"))
    function = load(file).specification.stages["board"].function
    assert function is not None
    assert function("rows", None) == "rows"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("steps.py:bored", "steps.py has no function bored"),
        ("steps.py", "'steps.py' names no function; write it like steps.py:board"),
        ("stairs.py:board", "there is no Python file "),
        ("reports.ddl:board", "there is no Python file "),
    ],
)
def test_a_function_that_is_not_there_is_reported_with_the_line_of_its_stage(
    tmp_path: Path, function: str, said: str
) -> None:
    (tmp_path / "steps.py").write_text("def board(clean, crews):\n    return clean\n")
    (found,) = _with(tmp_path, _with_function(function))
    assert found.startswith(f"city.yaml:20: stages.board.function: {said}")


def test_a_file_of_functions_is_run_once_as_a_module_that_knows_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_steps.py").write_text("RUNS = []\n")
    (tmp_path / "neighbourly_steps.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass, field\n"
        "from typing import ClassVar\n"
        "from neighbour_of_steps import RUNS\n"
        "RUNS.append(1)\n"
        "@dataclass\nclass Row:\n    kind: ClassVar[str] = 'row'\n    id: str = ''\n"
        "def board(clean, crews):\n    return len(RUNS)\n"
    )
    text = _with_function("neighbourly_steps.py:board")
    more = "  more: {from: [clean, crews], function: neighbourly_steps.py:board}\nsinks:"
    stages = load(write_emergency(tmp_path, text=text.replace("sinks:", more))).specification.stages
    assert stages["board"].function is stages["more"].function
    assert stages["board"].function is not None
    assert stages["board"].function(None, None) == 1


def test_functions_of_files_beside_the_pipeline_or_below_it_go_to_the_workers_as_they_are(tmp_path: Path) -> None:
    for folder in (tmp_path / "below", tmp_path / "package"):
        folder.mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "below" / "steps_below.py").write_text("import package\ndef board(clean, crews):\n    return clean\n")
    (tmp_path / "steps_beside.py").write_text("def board(clean, crews):\n    return clean\n")
    text = _with_function("steps_beside.py:board")
    more = "  more: {from: [clean, crews], function: below/steps_below.py:board}\nsinks:"
    loaded = load(write_emergency(tmp_path, text=text.replace("sinks:", more)))
    carry_modules(loaded.folder)
    registered: Any = cloudpickle.list_registry_pickle_by_value
    assert {"steps_beside", "steps_below"} <= registered()
    assert "package" not in registered()


def test_an_error_in_a_file_of_functions_is_reported_once_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("def board(clean, crews):\n    return clean\n\nboard(unknown)\n")
    text = _with_function("steps.py:board")
    more = "  more: {from: [clean, crews], function: steps.py:board}\nsinks:"
    assert _with(tmp_path, text.replace("sinks:", more)) == [
        f"{tmp_path}/steps.py:4: NameError: name 'unknown' is not defined"
    ]


def test_a_file_with_the_name_of_a_module_of_pythons_does_not_take_its_place(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def board(clean, crews):\n    return clean\n")
    load(write_emergency(tmp_path, text=_with_function("json.py:board")))
    assert hasattr(importlib.import_module("json"), "dumps")


def test_the_line_of_an_error_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_emergency(tmp_path, suffix=".py", text="import catchment.pipelines\n\nraise RuntimeError('no network')\n")
    monkeypatch.chdir(tmp_path)
    assert _mistakes(Path("city.py")) == ["city.py:3: RuntimeError: no network"]


@pytest.mark.parametrize(
    ("sql", "inputs"),
    [
        ("SELECT * FROM clean", ("clean",)),
        ("select * from (select 1 from `clean`) c left\njoin crews using (district)", ("clean", "crews")),
        ("SELECT * FROM crews, clean WHERE 1 = 1", ("crews", "clean")),
        ("SELECT extract(DAY FROM at) FROM clean JOIN clean USING (id)", ("clean",)),
        ("SELECT * FROM clean c, crews k", ("clean", "crews")),
        ("SELECT * FROM (SELECT id FROM clean), crews", ("clean", "crews")),
        ("SELECT 'from crews' -- from crews\nFROM clean /* join crews */", ("clean",)),
        ("SELECT /*+ BROADCAST(crews) */ * FROM clean", ("clean",)),
        ("WITH crews AS (SELECT * FROM clean) SELECT * FROM Crews", ("clean",)),
        ("WITH crews AS (SELECT * FROM crews) SELECT * FROM clean JOIN crews", ("crews", "clean")),
        (
            "SELECT (SELECT max(crew) FROM crews) FROM clean WHERE id IN (SELECT id FROM board)",
            ("crews", "clean", "board"),
        ),
        ("SELECT * FROM archive.crews JOIN clean", ("clean",)),
    ],
)
def test_sql_tells_by_itself_what_it_reads(tmp_path: Path, sql: str, inputs: tuple[str, ...]) -> None:
    stages = f"  more:\n    sql: |\n{indent(sql, '      ')}\nsinks:"
    file = write_emergency(tmp_path, text=YAML.replace("sinks:", stages))
    assert load(file).specification.stages["more"].from_ == inputs


def test_sql_that_reads_nothing_of_the_pipeline_must_say_what_it_is_for(tmp_path: Path) -> None:
    found = _with(tmp_path, YAML.replace("sinks:", "  more: {sql: SELECT 1}\nsinks:"))
    assert found == ["city.yaml:23: stages.more.from: missing"]


def test_sql_that_cannot_be_read_must_say_what_it_reads(tmp_path: Path) -> None:
    unreadable = "  more: {sql: SELECT ((1 FROM clean}\n  last: {sql: 'SELECT \"1 FROM clean'}\nsinks:"
    one, other = _with(tmp_path, YAML.replace("sinks:", unreadable))
    assert one.startswith(
        "city.yaml:23: stages.more.from: write what it reads, which its SQL does not show (line 1, at "
    )
    assert other.startswith("city.yaml:24: stages.last.from: write what it reads")
    said = YAML.replace("sinks:", "  more: {from: clean, sql: SELECT ((1 FROM clean}\nsinks:")
    assert load(write_emergency(tmp_path, text=said)).specification.stages["more"].from_ == ("clean",)


def test_a_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistakes, match="there is no file"):
        load(tmp_path / "nothing.yaml")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("lateness: 20 seconds", "start: latest"), "event_time and lateness belong together"),
        (("    key: [district, start]\n", ""), "mode update needs a key"),
        (("schema: reports.ddl, ", ""), "format json needs a schema"),
        (("    mode: update", "    from: crews\n    mode: update"), "reads tables alone"),
        (("    when: count > 40 AND crew < 3\n", ""), "either `when` or `absent_for`"),
        (("pipeline: emergency", "pipeline: 9 lives"), "is no name"),
        (("topic: reports.clean", "topic: reports/clean"), "is no name of a topic"),
        (("tables:\n  crews:", "tables:\n  reports:"), "the name reports is taken"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert any(said in one for one in _with(tmp_path, YAML.replace(*change)))


@given(st.integers(0, 10_000), st.sampled_from(sorted(_UNITS_MS)), st.booleans(), st.sampled_from(["", " ", "  "]))
def test_lengths_of_time_are_read_in_every_unit(number: int, unit: str, is_plural: bool, space: str) -> None:
    written = f"{number}{space}{unit}{'s' if is_plural and unit != 'ms' else ''}"
    assert milliseconds(written) == number * _UNITS_MS[unit]
    assert milliseconds(interval(milliseconds(written))) == milliseconds(written)


@given(st.one_of(st.integers(), st.floats(), st.none(), st.text().filter(lambda text: not text.strip()[:1].isdigit())))
def test_what_names_no_unit_is_no_length_of_time(length: object) -> None:
    with pytest.raises(ValueError, match="is no length of time"):
        milliseconds(length)


@pytest.mark.parametrize(
    ("topic_name", "name"),
    [("shop.orders", "shop_orders"), ("orders", "orders"), ("2024.orders", "topic_2024_orders"), ("x" * 99, "x" * 63)],
)
def test_a_source_has_a_valid_name_from_its_topic(topic_name: str, name: str) -> None:
    shop = Pipeline("shop")
    orders = shop.source(topic(topic_name, schema="id string"))
    prices = shop.table(topic(f"{topic_name[:60]}.prices", schema="id string, price int"), key="id")
    shop.sink(orders, store("sqlite:///shop.db", table="orders"))

    found = shop.check()

    assert orders.name == name
    assert {one.topic for one in found.sources.values()} == {topic_name}
    assert list(found.tables) == [prices.name]


def test_two_topics_that_give_the_same_name_need_one_of_the_authors() -> None:
    shop = Pipeline("shop")
    shop.source(topic("shop.orders", schema="id string"))
    shop.source(topic("shop_orders", schema="id string"))

    with pytest.raises(Mistakes, match=r"sources\.shop_orders is given twice; name one of them with name="):
        shop.check()
