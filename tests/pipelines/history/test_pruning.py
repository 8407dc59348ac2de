"""What earlier versions have left is deleted, and nothing that one may still go back to."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipelines.city import City, Report, each_once
from tests.pipelines.stores.boards import board, rows
from typer.testing import CliRunner

from catchment.cli.app import app
from catchment.client.errors import ClientError
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.driving.supervision.run_file import RunLock
from catchment.pipelines.execution.topics import TopicAdmin
from catchment.pipelines.graph import Graph
from catchment.pipelines.history.pruning import Leftover, prune
from catchment.pipelines.home import Home
from catchment.pipelines.planning import Kept, Signature, kept_with_checkpoints
from catchment.pipelines.planning.signature import Made
from catchment.pipelines.stores.store import RealTimeStore
from catchment.pipelines.stores.store_opening import open_store

OUTLET = "outlet-board"
FILE = """
pipeline: city
version: {version}
sources:
  reports: {{topic: reports, schema: "id string, at timestamp", event_time: at, lateness: 20 seconds}}
stages:
  clean: {{from: reports, dedupe: id}}
sinks:
  - {{from: clean, store: "sqlite:///city.db", table: board, name: board}}
"""
versions = st.sets(st.integers(1, 6), min_size=1).map(sorted)


@dataclass(frozen=True)
class Past:
    """A pipeline with the checkpoints and tables of earlier runs."""

    folder: Path
    version: int

    @property
    def home(self) -> Home:
        return Home(self.folder / "home", "city")

    @property
    def kept(self) -> Kept:
        kept = kept_with_checkpoints(self.home)
        assert kept is not None
        return kept

    def begin(self, made: dict[str, Sequence[int]], live: int, unseen: Collection[int] = ()) -> None:
        """Leave checkpoints of these versions, and a version of the table for each of the sink's; some were never shown."""
        for query, numbers in made.items():
            for number in numbers:
                checkpoint = self.home.checkpoint(query, number)
                checkpoint.mkdir(parents=True)
                (checkpoint / "metadata").write_text("{}")
        signature = Signature(kind="outlet", reads=("reports",))
        queries = {
            query: tuple(Made(checkpoint_version=one, pipeline_version=one, signature=signature) for one in numbers)
            for query, numbers in made.items()
        }
        self.home.plan_file.write_text(Kept(pipeline="city", queries=queries).model_dump_json())
        with board(f"sqlite:///{self.folder}/city.db", *made[OUTLET]) as store:
            for number in made[OUTLET]:
                store.write(rows([("harbour", 1, number)]), "query", number, number)
                if number not in unseen:
                    store.switch(number, None)
            store.switch(live, None)

    def prune(self, keeps: int, *, is_dry_run: bool = False) -> list[Leftover]:
        graph = Graph(load(self.file()).specification)
        return prune(graph, self.folder, self.home, keeps=keeps, topics=None, is_dry_run=is_dry_run)

    def file(self) -> Path:
        file = self.folder / "city.yaml"
        file.write_text(FILE.format(version=self.version))
        return file

    def tables(self) -> list[int]:
        with self._store() as store:
            return [one.version for one in store.versions()]

    def shown(self) -> list[int]:
        with self._store() as store:
            return [row["count"] for row in store.read().to_pylist()]

    def numbers(self, query: str) -> list[int]:
        return [one.checkpoint_version for one in self.kept.queries[query]]

    def _store(self) -> RealTimeStore:
        return open_store(f"sqlite:///{self.folder}/city.db", "board")


@pytest.fixture
def past(tmp_path: Path) -> Past:
    made = Past(tmp_path, version=3)
    made.begin({"clean": [1], OUTLET: [1, 2, 3]}, live=3)
    return made


def test_the_version_before_stays_to_go_back_to_and_older_ones_go(past: Past) -> None:
    assert past.prune(1, is_dry_run=True) == [Leftover("table", OUTLET, 1), Leftover("checkpoint", OUTLET, 1)]
    assert (past.tables(), past.numbers(OUTLET)) == ([1, 2, 3], [1, 2, 3]), "a dry run deletes nothing"

    past.prune(1)

    assert (past.tables(), past.numbers(OUTLET), past.numbers("clean")) == ([2, 3], [2, 3], [1])
    assert past.shown() == [3]
    assert past.prune(1) == []
    assert past.prune(0) == [Leftover("table", OUTLET, 2), Leftover("checkpoint", OUTLET, 2)]
    assert (past.tables(), past.numbers(OUTLET), past.shown()) == ([3], [3], [3])


def test_state_of_real_time_mode_goes_with_the_version_that_made_it(past: Past) -> None:
    for version in (1, 2):
        checkpoint = past.home.realtime_checkpoint(OUTLET, version)
        checkpoint.mkdir()
        (checkpoint / "metadata").write_text("{}")

    past.prune(1)

    assert [past.home.checkpoints(OUTLET, version) for version in (1, 2, 3)] == [
        [],
        [past.home.checkpoint(OUTLET, 2), past.home.realtime_checkpoint(OUTLET, 2)],
        [past.home.checkpoint(OUTLET, 3)],
    ]


def test_a_version_that_was_never_shown_is_no_way_back_and_goes(tmp_path: Path) -> None:
    past = Past(tmp_path, version=3)
    past.begin({"clean": [1], OUTLET: [1, 2, 3]}, live=3, unseen=[1, 2])
    (past.home.checkpoint(OUTLET, 2) / "metadata").unlink()
    assert past.prune(1, is_dry_run=True) == [Leftover("table", OUTLET, 2)], (
        "the first version was shown from the start"
    )


def test_what_is_shown_after_a_rollback_stays_though_the_file_is_newer(tmp_path: Path) -> None:
    past = Past(tmp_path, version=2)
    past.begin({"clean": [1], OUTLET: [1, 2]}, live=1)
    assert past.prune(0) == []


def test_a_removal_that_was_cut_short_is_finished_by_the_next(past: Past) -> None:
    checkpoint = past.home.checkpoint(OUTLET, 1)
    half = checkpoint.rename(checkpoint.with_name(f"{checkpoint.name}.removed"))
    assert past.numbers(OUTLET) == [2, 3], "no version continues it"

    assert past.prune(1) == [Leftover("table", OUTLET, 1)]

    assert not half.exists()
    assert past.tables() == [2, 3]


def test_a_pipeline_that_runs_is_left_alone(past: Past) -> None:
    lock = RunLock(past.home)
    with pytest.raises(ClientError, match="runs pipeline city") as refused:
        past.prune(0)
    assert past.prune(1, is_dry_run=True), "to look does no harm"
    lock.close()
    assert refused.value.advice == "Stop it first: catchment pipeline stop city."
    assert past.numbers(OUTLET) == [1, 2, 3]


def test_a_pipeline_that_never_ran_has_left_nothing_and_is_not_begun(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="never ran"):
        Past(tmp_path, version=1).prune(0)
    assert not (tmp_path / "home").exists()


@given(clean=versions, sink=versions, version=st.integers(1, 7), keeps=st.integers(0, 3), data=st.data())
def test_every_version_that_is_kept_goes_on_with_what_it_had(
    clean: list[int], sink: list[int], version: int, keeps: int, data: st.DataObject
) -> None:
    live = data.draw(st.sampled_from(sink))
    with tempfile.TemporaryDirectory() as folder:
        past = Past(Path(folder), version)
        past.begin({"clean": clean, OUTLET: sink}, live)
        before = past.kept
        earlier = sorted({one for one in (*clean, *sink) if one < version}, reverse=True)
        older_tables = sorted((one for one in sink if one < live), reverse=True)

        past.prune(keeps)

        for query in ("clean", OUTLET):
            for number in (*earlier[:keeps], *range(version, 8)):
                assert past.kept.made(query, number) == before.made(query, number)
        assert past.shown() == [live]
        assert set(past.tables()) >= set(older_tables[:keeps])
        assert past.prune(keeps) == [], "once is enough"


def test_topics_of_a_version_that_is_gone_are_deleted_when_asked_for(city: City) -> None:
    city.send([Report("a", 1), Report("b", 2)], 15)
    city.drain_as_planned(each_once(city, 1, "id"))
    newer = each_once(city, 2, "district")
    city.drain_as_planned(newer)
    graph, home = Graph(newer.check()), Home(city.folder / "home", city.name)
    admin = TopicAdmin(city.servers, {})
    assert {f"{city.name}.clean", f"{city.name}.clean.v2"} <= admin.names()

    found = prune(graph, city.folder, home, keeps=0, topics=admin, is_dry_run=False)

    assert Leftover("topic", f"{city.name}.clean", 1) in found
    assert f"{city.name}.clean" not in admin.names()
    assert {city.reports, f"{city.name}.clean.v2"} <= admin.names()
    city.send([Report("c", 3, "hills")], 16)
    assert set(city.drain_as_planned(newer).values()) == {"reuse"}
    assert sorted(row["id"] for row in city.values(f"{city.name}.clean.v2")) == ["a", "c"]


def test_the_command_says_what_went(past: Past) -> None:
    arguments = ["pipeline", "prune", str(past.file()), "--home", str(past.home.root)]
    assert json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout) == [
        {"kind": "table", "name": OUTLET, "version": 1},
        {"kind": "checkpoint", "name": OUTLET, "version": 1},
    ]
    assert "no earlier version to delete" in CliRunner().invoke(app, arguments).stderr
