"""Signatures are found again by what they are made of, and by nothing less."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from catchment.pipelines.declaration.loading import load
from catchment.pipelines.execution.session import carry_modules
from catchment.pipelines.graph import Graph
from catchment.pipelines.planning import Current
from catchment.pipelines.planning.remembered import key_of, recall, remember

CITY = """
from catchment.pipelines import Pipeline, store, topic
from {module} import least

city = Pipeline("city")
reports = city.source(topic("reports", schema="id int, at timestamp"))

@city.stage(reports, key=["id"])
def loud(reports):
    return reports.where(least("id", 7))

city.sink(loud, store("sqlite:///${{CITY_STORE}}", table="loud"))
"""
HELP = """
def least(name, number):
    return f"{name} > {number}"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CITY_STORE", "city.db")


def key(folder: Path, module: str, city: str = CITY, help_: str = HELP) -> str | None:
    """Each in modules of its own, for Python loads a module once."""
    (folder / f"{module}.py").write_text(help_)
    file = folder / "city.py"
    file.write_text(city.format(module=module))
    loaded = load(file)
    carry_modules(loaded.folder)
    return key_of(Graph(loaded.specification), loaded.folder)


def test_a_change_of_code_columns_or_targets_is_another_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = key(tmp_path, "help_one")
    assert first is not None
    assert key(tmp_path, "help_one") == first

    others = [
        key(tmp_path, "help_one", CITY.replace('"id", 7', '"id", 8')),
        key(tmp_path, "help_two", help_=HELP.replace(">", ">=")),
        key(tmp_path, "help_one", CITY.replace("id int", "id bigint")),
        key(tmp_path, "help_one", CITY.replace('key=["id"]', 'key=["at"]')),
    ]
    monkeypatch.setenv("CITY_STORE", "town.db")
    others.append(key(tmp_path, "help_one"))
    assert len({first, *others}) == 6


def test_a_pipeline_whose_columns_are_not_known_is_not_remembered(tmp_path: Path) -> None:
    loaded_text = CITY.replace('schema="id int, at timestamp"', 'format="avro", schema="reports.avsc"')
    (tmp_path / "reports.avsc").write_text("{}")
    found = key(tmp_path, "help_three", loaded_text)

    assert found is None
    remember(found, Current(version=1, queries={}))
    assert recall(found) is None


def test_what_is_remembered_is_recalled_unless_it_is_damaged(tmp_path: Path) -> None:
    current = Current(version=3, queries={})
    assert recall("a") is None
    remember("a", current)
    assert recall("a") == current
    assert recall("b") is None

    (tmp_path / "cache" / "catchment" / "plans" / "a").write_text("{")
    assert recall("a") is None
