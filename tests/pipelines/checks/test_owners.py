"""The table in docs/guide/ordinary-mistakes.md: no mistake loses or doubles rows in silence, and Spark is not started to find it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.owned_town import SparkStarted, Town
from typer.testing import CliRunner

from catchment.cli.app import app
from catchment.pipelines.checks.owners import check_owners
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.driving.supervision.run_file import RunLock
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.testing.embedded import Broker

if TYPE_CHECKING:
    from tests.client.logs import Logs

COMMANDS = ("plan", "run", "run --available-now", "backfill")
REFUSED = 3


@pytest.fixture
def town(catchment_logs: Logs, tmp_path: Path) -> Town:
    made = Town(catchment_logs.bootstrap_servers, tmp_path)
    made.run()
    return made


@pytest.fixture(scope="module")
def other_cluster() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def refused(town: Town, *texts: str, home: Home | None = None, servers: str | None = None) -> None:
    """Every command exits with 3 before Spark starts, and says these things."""
    for verb in COMMANDS:
        result = town.command(verb, home=home, servers=servers)
        assert result.exit_code == REFUSED, (verb, result.output, result.exception)
        for text in texts:
            assert text in result.output, verb


def goes_on(town: Town, home: Home | None = None) -> dict[str, str]:
    """What each of the commands prints up to the moment at which Spark would be started."""
    results = {verb: town.command(verb, home=home) for verb in COMMANDS}
    for verb, result in results.items():
        assert isinstance(result.exception, SparkStarted), (verb, result.output, result.exception)
    return {verb: result.output for verb, result in results.items()}


def copied(town: Town) -> Home:
    copy = Home(town.folder / "copy", town.name)
    shutil.copytree(town.home.root, copy.root)
    return copy


def test_nothing_is_refused_of_a_pipeline_that_is_run_again(town: Town) -> None:
    town.run(batch=1)
    assert set(goes_on(town).values()) == {""}


def test_another_home_is_refused_and_the_owner_is_named(town: Town) -> None:
    other = Home(town.folder / "elsewhere", town.name)
    places = (f"topic {town.name}.clean", "table board of", "lake ", f"topic {town.name}-copy")
    ways = (f"--home {town.home.root}", "raise the pipeline's version above 1", "catchment pipeline reset")
    refused(town, *places, *ways, home=other)
    assert not other.folder.exists(), "nothing is changed"


def test_a_refusal_is_printed_as_json(town: Town) -> None:
    result = town.command("plan", "--json", home=Home(town.folder / "elsewhere", town.name))
    assert result.exit_code == REFUSED
    queries = json.loads(result.stdout)["queries"]
    assert {name: one["action"] for name, one in queries.items()} == dict.fromkeys(
        ("clean", "outlet-board", "outlet-lake", "outlet-copy"), "refuse"
    )


def test_deleted_checkpoints_are_refused(town: Town) -> None:
    shutil.rmtree(town.home.folder / "checkpoints")
    refused(town, "whose checkpoint is gone from", "estore the checkpoint")
    assert not (town.home.folder / "checkpoints").exists()


def test_a_deleted_checkpoint_of_one_sink_is_refused(town: Town) -> None:
    shutil.rmtree(town.home.checkpoint("outlet-lake", 1))
    refused(town, f"outlet-lake: lake {town.folder}/lake holds rows of outlet-lake")


def test_of_two_copies_of_a_home_the_one_that_wrote_last_goes_on(town: Town) -> None:
    copy = copied(town)
    goes_on(town, copy)
    town.run(copy, batch=1)
    refused(town, "another copy of this checkpoint", f"--home {copy.root}")
    goes_on(town, copy)


def test_an_older_copy_of_checkpoints_is_refused(town: Town) -> None:
    """The copy was made while the run went on: both know the run's token."""
    copy = copied(town)
    town.write_batch(town.context(), 1, is_claimed=False)
    refused(town, "it is an older copy", home=copy)


def test_a_copy_is_refused_while_the_original_runs(town: Town) -> None:
    copy = copied(town)
    with closing(RunLock(town.home)):
        refused(town, f"is being written by a run of pipeline {town.name} in {town.home.root}", home=copy)


def test_a_second_run_in_one_home_does_not_start(town: Town) -> None:
    with closing(RunLock(town.home)):
        results = {verb: town.command(verb) for verb in COMMANDS}
    for verb in ("run", "run --available-now"):
        assert results[verb].exit_code == 1
        assert f"runs pipeline {town.name}" in results[verb].output
    for verb in ("plan", "backfill"):
        # To look, and to recompute beside a run, is allowed.
        assert isinstance(results[verb].exception, SparkStarted)


@pytest.mark.parametrize("topic", ["{}-reports", "{}.clean"])
def test_a_recreated_topic_is_refused(town: Town, topic: str) -> None:
    name = topic.format(town.name)
    town.delete_topic(name)
    town.make_topic(name)
    refused(town, f"topic {name} was deleted and created again")


def test_a_deleted_boundary_topic_is_refused(town: Town) -> None:
    town.delete_topic(f"{town.name}.clean")
    refused(town, f"topic {town.name}.clean was deleted")
    assert f"{town.name}.clean" not in town.topics()


def test_a_removed_database_and_a_removed_lake_are_refused(town: Town) -> None:
    for file in town.folder.glob("city.db*"):
        file.unlink()
    shutil.rmtree(town.folder / "lake")
    gone = "was emptied, removed or replaced"
    refused(town, f"table board of sqlite:///{town.folder}/city.db {gone}", f"lake {town.folder}/lake {gone}")
    assert not (town.folder / "city.db").exists()


def test_rows_that_were_deleted_from_a_table_are_noted(town: Town) -> None:
    with closing(sqlite3.connect(town.folder / "city.db")) as database, database:
        database.execute("DELETE FROM board__speed_1")
    printed = goes_on(town)
    for verb in ("run", "run --available-now"):
        assert "has no rows, though outlet-board has written batches up to 0" in printed[verb]
    graph = Graph(load(town.file).specification)
    [note] = check_owners(graph, town.folder, town.home, town.servers).notes
    assert note.startswith("table board of"), "a plan prints it after Spark has been asked"


def test_a_store_and_a_lake_of_another_pipeline_are_refused(town: Town) -> None:
    other = Town(town.servers, town.folder, f"{town.name}b")
    whose = f"belongs to pipeline {town.name}, whose query"
    refused(other, f"table board of sqlite:///{town.folder}/city.db {whose}", f"lake {town.folder}/lake {whose}")
    rolled_back = CliRunner().invoke(app, ["pipeline", "rollback", str(other.file), "board"])
    assert rolled_back.exit_code == REFUSED, rolled_back.output


def test_a_renamed_stage_is_refused(town: Town) -> None:
    town.write_file(clean="cleaned")
    refused(town, "has the rows of clean, which the file does not have")


def test_a_renamed_sink_is_refused(town: Town) -> None:
    town.write_file(board="board2")
    refused(town, "f it is board under another name")


def test_brokers_of_another_cluster_are_refused(town: Town, other_cluster: str) -> None:
    refused(town, "and these brokers are cluster", servers=other_cluster)


def test_a_home_of_an_earlier_release_goes_on(catchment_logs: Logs, tmp_path: Path) -> None:
    town = Town(catchment_logs.bootstrap_servers, tmp_path)
    town.write_batch(town.context(), 0, is_claimed=False)
    goes_on(town)
    town.run(batch=1)
    goes_on(town)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_rows_of_an_earlier_release_without_their_checkpoints_are_refused(
    catchment_logs: Logs, tmp_path: Path, is_deleted: bool
) -> None:
    town = Town(catchment_logs.bootstrap_servers, tmp_path)
    town.write_batch(town.context(), 0, is_claimed=False)
    if is_deleted:
        shutil.rmtree(town.home.folder / "checkpoints")
    home = town.home if is_deleted else Home(town.folder / "elsewhere", town.name)
    rows = f"holds rows of a query whose checkpoint is not in {home.root}"
    places = ("table board of sqlite:///{0}/city.db", "lake {0}/lake", "topic {1}.clean")
    refused(town, *(f"{one.format(town.folder, town.name)} {rows}" for one in places), home=home)


def test_a_moved_folder_goes_on(town: Town, tmp_path: Path) -> None:
    """Home, store and lake together: the same rows and the same checkpoints, under another path."""
    moved = tmp_path / "moved"
    moved.mkdir()
    for one in ("home", "city.db", "lake"):
        shutil.move(town.folder / one, moved / one)
    town.write_file(folder=moved)
    assert set(goes_on(town, Home(moved / "home", town.name)).values()) == {""}


def test_a_new_version_writes_beside_rows_of_another_home(town: Town) -> None:
    """A lake and a topic of a sink have no versions: they need another place."""
    town.write_file(version=2)
    home = Home(town.folder / "elsewhere", town.name)
    refused(town, "name another lake", "name another topic", home=home)
    found = check_owners(Graph(load(town.file).specification), town.folder, home, town.servers)
    assert set(found.objections) == {"outlet-lake", "outlet-copy"}
    assert found.begins == {"clean": 2, "outlet-board": 2}
