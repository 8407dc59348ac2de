"""`catchment pipeline reset`: everything of a pipeline goes, and nothing of others."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from tests.pipelines.owned_town import SparkStarted, Town

from catchment.pipelines.driving.supervision.run_file import RunLock
from catchment.pipelines.home import Home
from catchment.pipelines.lakes.lake import Lake
from catchment.pipelines.ownership.topic_owners import TopicOwners

if TYPE_CHECKING:
    from tests.client.logs import Logs


@pytest.fixture
def town(catchment_logs: Logs, tmp_path: Path) -> Town:
    made = Town(catchment_logs.bootstrap_servers, tmp_path)
    made.run()
    return made


def everything(town: Town) -> list[tuple[str, str]]:
    name, folder = town.name, town.folder
    return [
        ("topic", f"topic {name}.clean"),
        ("topic", f"topic {name}-copy"),
        ("topic", f"topic {name}.quarantine"),
        ("topic", f"topic {name}.quarantine.replayed"),
        ("topic", f"topic {name}.late"),
        ("table", f"table board of sqlite:///{folder}/city.db"),
        ("lake", f"lake {folder}/lake"),
        ("checkpoints", f"checkpoints {town.home.folder}/checkpoints"),
    ]


def listed(town: Town, *options: str, home: Home | None = None) -> list[tuple[str, str]]:
    result = town.command("reset", "--json", *options, home=home)
    assert result.exit_code == 0, result.output
    return [(one["kind"], one["name"]) for one in json.loads(result.stdout)]


def test_a_dry_run_lists_everything_and_deletes_nothing(town: Town) -> None:
    with closing(RunLock(town.home)):
        assert sorted(listed(town, "--dry-run")) == sorted(everything(town)), "to look does no harm to a run"
    assert isinstance(town.command("run").exception, SparkStarted)


def test_without_a_terminal_it_asks_for_a_yes(town: Town) -> None:
    result = town.command("reset")
    assert result.exit_code == 2
    assert "--yes" in result.output
    assert isinstance(town.command("run").exception, SparkStarted)


def test_files_of_others_in_the_folder_of_a_lake_are_not_deleted_with_it(town: Town) -> None:
    notes = town.folder / "lake" / "notes.txt"
    notes.write_text("mine")
    for arguments in (("--dry-run",), ("--yes",)):
        result = town.command("reset", *arguments)
        assert result.exit_code == 1
        assert "has notes.txt, which is no part of the lake" in result.output
    assert notes.read_text() == "mine"
    assert f"{town.name}.clean" in town.topics(), "nothing else was deleted either"
    notes.unlink()
    assert sorted(listed(town, "--yes")) == sorted(everything(town))


def test_what_was_deleted_is_written_again_from_scratch(town: Town) -> None:
    assert sorted(listed(town, "--yes")) == sorted(everything(town))
    assert town.topics() == {f"{town.name}-reports"}, "what the pipeline reads stays"
    assert not (town.folder / "lake").exists()
    with TopicOwners(town.servers, {}) as owners:
        assert f"{town.name}.clean" not in owners.read()
    assert listed(town, "--yes") == []
    elsewhere = Home(town.folder / "elsewhere", town.name)
    assert isinstance(town.command("run", home=elsewhere).exception, SparkStarted), "it belongs to no home"
    town.run()
    assert town.stored() == 1


def test_a_home_that_no_longer_owns_anything_is_refused_after_a_reset(town: Town) -> None:
    elsewhere = Home(town.folder / "elsewhere", town.name)
    result = town.command("reset", "--yes", home=elsewhere)
    assert f"checkpoints in {town.home.root} on" in result.output
    assert town.command("run").exit_code == 3
    listed(town, "--yes")
    assert isinstance(town.command("run").exception, SparkStarted)


def test_what_another_pipeline_owns_stays(town: Town) -> None:
    other = Town(town.servers, town.folder, f"{town.name}b")
    result = other.command("reset", "--yes")
    assert f"city.db belongs to pipeline {town.name} as well: it is left as it is" in result.output
    assert f"lake belongs to pipeline {town.name} as well" in result.output
    assert town.stored() == 1
    assert isinstance(town.command("run").exception, SparkStarted)


def test_a_pipeline_that_runs_is_left_alone(town: Town) -> None:
    with closing(RunLock(town.home)):
        here = town.command("reset", "--yes")
        elsewhere = town.command("reset", "--yes", home=Home(town.folder / "elsewhere", town.name))
    assert (here.exit_code, elsewhere.exit_code) == (1, 1)
    assert f"runs pipeline {town.name}" in here.output
    assert f"is being written by a run of pipeline {town.name}" in elsewhere.output
    assert isinstance(town.command("run").exception, SparkStarted)


def test_a_reset_that_was_cut_short_keeps_runs_out_and_is_finished_by_the_next(town: Town) -> None:
    with patch.object(Lake, "drop", side_effect=KeyboardInterrupt):
        town.command("reset", "--yes")
    assert f"{town.name}.clean" not in town.topics()
    for verb in ("plan", "run", "backfill"):
        result = town.command(verb)
        assert result.exit_code == 3
        assert "was interrupted" in result.output
    listed(town, "--yes")
    assert not (town.folder / "lake").exists()
    assert not (town.home.folder / "checkpoints").exists()
    assert isinstance(town.command("run").exception, SparkStarted)


def test_what_an_earlier_release_has_written_goes_by_the_ids_beside_it(catchment_logs: Logs, tmp_path: Path) -> None:
    town = Town(catchment_logs.bootstrap_servers, tmp_path)
    town.write_batch(town.context(), 0, is_claimed=False)
    found = listed(town, "--dry-run")
    assert {kind for kind, _ in found} == {"topic", "table", "lake", "checkpoints"}
    assert ("topic", f"topic {town.name}-copy") not in found, "anyone may have written to it"
    elsewhere = listed(town, "--dry-run", home=Home(town.folder / "elsewhere", town.name))
    assert elsewhere == [], "nothing proves that it is the pipeline's"
