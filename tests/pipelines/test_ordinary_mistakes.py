"""The table in docs/guide/ordinary-mistakes.md: no mistake loses or doubles rows in silence, and Spark is not started to find it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.owned_town import SparkStarted, Town

from catchment.pipelines.driving.run_file import RunLock
from catchment.pipelines.home import Home
from catchment.testing.embedded import Broker

if TYPE_CHECKING:
    from tests.client.logs import Logs
    from typer.testing import Result

COMMANDS = ("plan", "run", "run --available-now", "backfill")
REFUSED = 3
every_command = pytest.mark.parametrize("verb", COMMANDS)


@pytest.fixture
def town(catchment_logs: Logs, tmp_path: Path) -> Town:
    made = Town(catchment_logs.bootstrap_servers, tmp_path)
    made.run()
    return made


@pytest.fixture(scope="module")
def other_cluster() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def said(result: Result) -> str:
    assert result.exit_code == REFUSED, (result.output, result.exception)
    return result.output


def goes_on(result: Result) -> str:
    assert isinstance(result.exception, SparkStarted), (result.output, result.exception)
    return result.output


@every_command
def test_nothing_is_refused_of_a_pipeline_that_is_run_again(town: Town, verb: str) -> None:
    town.run(batch=1)
    assert "note:" not in goes_on(town.command(verb))


@every_command
def test_another_home_is_refused_and_the_owner_is_named(town: Town, verb: str) -> None:
    other = Home(town.folder / "elsewhere", town.name)
    refused = said(town.command(verb, home=other))
    for place in (f"topic {town.name}.clean", "table board of", "lake ", f"topic {town.name}-copy"):
        assert place in refused
    assert f"Use --home {town.home.root}" in refused
    assert "raise the pipeline's version above 1" in refused
    assert "catchment pipeline reset" in refused
    assert not other.folder.exists(), "nothing is changed"


@every_command
def test_deleted_checkpoints_are_refused(town: Town, verb: str) -> None:
    shutil.rmtree(town.home.folder / "checkpoints")
    assert "whose checkpoint is gone from" in said(town.command(verb))
    assert not (town.home.folder / "checkpoints").exists()


@every_command
def test_a_deleted_checkpoint_of_one_sink_is_refused(town: Town, verb: str) -> None:
    shutil.rmtree(town.home.checkpoint("outlet-lake", 1))
    assert "lake" in said(town.command(verb))


@every_command
def test_of_two_copies_of_a_home_the_one_that_wrote_last_goes_on(town: Town, verb: str) -> None:
    copy = Home(town.folder / "copy", town.name)
    shutil.copytree(town.home.root, copy.root)
    goes_on(town.command(verb, home=copy))
    town.run(copy, batch=1)
    refused = said(town.command(verb))
    assert "another copy of this checkpoint" in refused
    assert f"--home {copy.root}" in refused
    goes_on(town.command(verb, home=copy))


@every_command
def test_an_older_copy_of_checkpoints_is_refused(town: Town, verb: str) -> None:
    """The copy was made while the run went on: both know the run's token."""
    copy = Home(town.folder / "copy", town.name)
    shutil.copytree(town.home.root, copy.root)
    town.write_batch(town.place(), 1, is_claimed=False)
    assert "it is an older copy" in said(town.command(verb, home=copy))


@every_command
def test_a_copy_is_refused_while_the_original_runs(town: Town, verb: str) -> None:
    copy = Home(town.folder / "copy", town.name)
    shutil.copytree(town.home.root, copy.root)
    lock = RunLock(town.home)
    try:
        assert "is being written by a run" in said(town.command(verb, home=copy))
    finally:
        lock.close()


@every_command
def test_a_second_run_in_one_home_does_not_start(town: Town, verb: str) -> None:
    lock = RunLock(town.home)
    try:
        result = town.command(verb)
    finally:
        lock.close()
    if verb.startswith("run"):
        assert result.exit_code == 1
        assert f"runs pipeline {town.name}" in result.output
    else:
        # To look, and to recompute beside a run, is allowed.
        goes_on(result)


@every_command
@pytest.mark.parametrize("topic", ["{}-reports", "{}.clean"])
def test_a_recreated_topic_is_refused(town: Town, verb: str, topic: str) -> None:
    name = topic.format(town.name)
    town.delete_topic(name)
    town.make_topic(name)
    assert f"topic {name} was deleted and created again" in said(town.command(verb))


@every_command
def test_a_deleted_boundary_topic_is_refused(town: Town, verb: str) -> None:
    town.delete_topic(f"{town.name}.clean")
    assert f"topic {town.name}.clean was deleted" in said(town.command(verb))
    assert f"{town.name}.clean" not in town.topics()


@every_command
def test_a_removed_database_is_refused(town: Town, verb: str) -> None:
    for file in town.folder.glob("city.db*"):
        file.unlink()
    assert "was emptied, removed or replaced" in said(town.command(verb))
    assert not (town.folder / "city.db").exists()


@every_command
def test_a_removed_lake_is_refused(town: Town, verb: str) -> None:
    shutil.rmtree(town.folder / "lake")
    assert "was emptied, removed or replaced" in said(town.command(verb))


@every_command
def test_rows_that_were_deleted_from_a_table_are_noted(town: Town, verb: str) -> None:
    with sqlite3.connect(town.folder / "city.db") as database:
        database.execute("DELETE FROM board__speed_1")
    result = town.command(verb)
    assert isinstance(result.exception, SparkStarted), result.output
    if verb.startswith("run"):
        assert "table board of" in result.output
        assert "has no rows, though outlet-board has written batches up to 0" in result.output


@every_command
def test_a_store_and_a_lake_of_another_pipeline_are_refused(town: Town, verb: str) -> None:
    other = Town(town.servers, town.folder, f"{town.name}b")
    refused = said(other.command(verb))
    assert f"table board of sqlite:///{town.folder}/city.db belongs to pipeline {town.name}" in refused
    assert f"lake {town.folder}/lake belongs to pipeline {town.name}" in refused
    assert f"topic {other.name}" not in refused, "its own topics are free"


@every_command
def test_a_renamed_stage_is_refused(town: Town, verb: str) -> None:
    town.write_file(clean="cleaned")
    assert "has the rows of clean, which the file does not have" in said(town.command(verb))


@every_command
def test_a_renamed_sink_is_refused(town: Town, verb: str) -> None:
    town.write_file(board="board2")
    refused = said(town.command(verb))
    assert "If it is board under another name" in refused


@every_command
def test_brokers_of_another_cluster_are_refused(town: Town, verb: str, other_cluster: str) -> None:
    assert "and these brokers are cluster" in said(town.command(verb, servers=other_cluster))


@every_command
def test_a_home_of_an_earlier_release_goes_on(catchment_logs: Logs, tmp_path: Path, verb: str) -> None:
    town = Town(catchment_logs.bootstrap_servers, tmp_path)
    town.write_batch(town.place(), 0, is_claimed=False)
    goes_on(town.command(verb))
    town.run(batch=1)
    goes_on(town.command(verb))


@every_command
@pytest.mark.parametrize("lose", [lambda town: shutil.rmtree(town.home.folder / "checkpoints"), None])
def test_rows_of_an_earlier_release_without_their_checkpoints_are_refused(
    catchment_logs: Logs, tmp_path: Path, verb: str, lose: Callable[[Town], None] | None
) -> None:
    town = Town(catchment_logs.bootstrap_servers, tmp_path)
    town.write_batch(town.place(), 0, is_claimed=False)
    if lose is not None:
        lose(town)
    home = town.home if lose is not None else Home(town.folder / "elsewhere", town.name)
    refused = said(town.command(verb, home=home))
    assert "table board of" in refused
    assert "holds rows of a query whose checkpoint is not in" in refused


@every_command
def test_a_moved_folder_goes_on(town: Town, verb: str, tmp_path: Path) -> None:
    """Home, store and lake together: the same rows and the same checkpoints, under another path."""
    moved = tmp_path / "moved"
    moved.mkdir()
    for one in ("home", "city.db", "lake"):
        shutil.move(town.folder / one, moved / one)
    town.write_file(folder=moved)
    goes_on(town.command(verb, home=Home(moved / "home", town.name)))


@every_command
def test_a_new_version_writes_beside_rows_of_another_home(town: Town, verb: str) -> None:
    """A lake and a topic of a sink have no versions: they need another place."""
    town.write_file(version=2)
    refused = said(town.command(verb, home=Home(town.folder / "elsewhere", town.name)))
    assert "lake" in refused
    assert "table board" not in refused
    assert f"topic {town.name}.clean" not in refused
