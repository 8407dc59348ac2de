"""Rows of a stage in mode update are revisions: where they would be kept as rows of their own, a file is refused before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.client.errors import SettingsError
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.errors import Mistakes
from catchment.pipelines.graph import Graph
from catchment.pipelines.history.backfill import require_rows, stage_with_code

ROOT = Path(__file__).parents[3]
APPLICATIONS = sorted((ROOT / "src" / "catchment" / "applications").glob("*/pipeline.py"))
YAML = """\
pipeline: shop
sources:
  orders: {topic: orders, schema: "shop string, at timestamp", event_time: at, lateness: 20 seconds}
stages:
  board: {from: orders, mode: update, key: shop, sql: SELECT shop FROM orders}
  large: {from: board, sql: SELECT shop FROM board}
sinks:
"""
PASSED_ON = "stage large passes on the rows of board, which is in mode update and gives a row again whenever it changes"


def _mistakes(folder: Path, text: str) -> list[str]:
    file = folder / "shop.yaml"
    file.write_text(text)
    try:
        load(file)
    except Mistakes as mistakes:
        return [str(one).replace(f"{folder}/", "") for one in mistakes.found]
    return []


def test_a_lake_would_keep_every_revision_as_a_row(tmp_path: Path) -> None:
    text = YAML.replace("  large: {from: board, sql: SELECT shop FROM board}\n", "")
    [found] = _mistakes(tmp_path, text + "  - {from: board, lake: lake}\n")
    assert found == (
        "shop.yaml:7: sinks.0: stage board is in mode update, and gives a row again whenever it changes. A lake only adds rows, and "
        "would keep every revision as a row. Keep it in a store or a compacted topic (`to`), by its key, or set the mode to append"
    )


def test_in_python_it_has_the_line_of_the_sink(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text("""\
from catchment.pipelines import Pipeline, lake, topic

shop = Pipeline("shop")
orders = shop.source(topic("orders", schema="shop string"))
board = shop.stage("board", orders, mode="update", key="shop", sql="SELECT shop FROM orders")
shop.sink(board, lake("lake"))
""")
    with pytest.raises(Mistakes, match=rf"{file}:6: sinks\.0: stage board is in mode update"):
        load(file)


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("lake: lake", "A lake only adds rows"),
        ("store: 'sqlite:///shop.db', table: large", "Without a key, the store would keep every revision as a row"),
        ("topic: large", "Without a key, no reader of the topic can tell what a record replaces"),
    ],
)
def test_a_stage_that_passes_revisions_on_gives_revisions_too(tmp_path: Path, sink: str, said: str) -> None:
    [found] = _mistakes(tmp_path, YAML + f"  - {{from: large, {sink}}}\n")
    assert found.startswith(f"shop.yaml:8: sinks.0: {PASSED_ON}. {said}")


@pytest.mark.parametrize("sink", ["store: 'sqlite:///shop.db', table: large, key: shop", "topic: large, key: shop"])
def test_with_a_key_they_may_be_kept(tmp_path: Path, sink: str) -> None:
    assert _mistakes(tmp_path, YAML + f"  - {{from: large, {sink}}}\n") == []


def test_a_topic_between_stages_needs_the_key_too(tmp_path: Path) -> None:
    without = YAML.replace("large: {from: board,", "large: {from: board, to: {topic: large},")
    [found] = _mistakes(tmp_path, without + "  - {from: large, topic: more, key: shop}\n")
    assert found.startswith(f"shop.yaml:6: stages.large: {PASSED_ON}. Without a key they lose their order")
    keyed = YAML.replace("large: {from: board,", "large: {from: board, to: {topic: large, key: shop},")
    assert _mistakes(tmp_path, keyed + "  - {from: large, topic: more}\n") == []


def test_the_history_of_a_stage_is_not_computed_from_revisions(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(YAML + "  - {from: large, store: 'sqlite:///shop.db', table: large, key: shop}\n")
    graph = Graph(load(file).specification)
    require_rows(graph, stage_with_code(graph, "board"))
    with pytest.raises(SettingsError, match="the history of stage large cannot be computed from board"):
        require_rows(graph, stage_with_code(graph, "large"))


@pytest.mark.parametrize("file", APPLICATIONS, ids=lambda file: file.parent.name)
def test_no_example_is_refused(file: Path) -> None:
    assert load(file).specification.stages
