"""`catchment bench broker` says what it is about to run before it runs it."""

import pytest
from tests.cli.conftest import Run

from catchment.bench import runner
from catchment.bench.runner import Progress, Session


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The servers of each run that was started; none of them is measured."""
    runs: list[list[str]] = []

    def run_nothing(
        sessions: list[Session], names: list[str], rounds: int, results: object, progress: Progress
    ) -> None:
        runs.append(names)

    monkeypatch.setattr(runner, "run", run_nothing)
    return runs


def test_without_a_peer_catchment_and_the_ceiling_are_measured(run: Run, started: list[list[str]]) -> None:
    result = run("bench", "broker", "--quick")

    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith("measuring catchment, ceiling: 69 steps, about ")
    assert "add --peer kafka" in result.stderr
    assert started == [["catchment", "ceiling"]]


def test_the_time_of_a_run_grows_with_its_rounds(run: Run, started: list[list[str]]) -> None:
    few = run("bench", "broker", "--quick", "--rounds", 1, "--workload", "latency").stderr
    many = run("bench", "broker", "--peer", "kafka", "--rounds", 50).stderr

    assert "a minute or two" in few
    assert "--peer kafka to compare" not in many
    assert int(many.split(" minutes")[0].split()[-1]) > 60
    assert started[1] == ["catchment", "kafka", "ceiling"]


def test_a_peer_that_is_not_known_starts_nothing(run: Run, started: list[list[str]]) -> None:
    result = run("bench", "broker", "--peer", "pulsar")

    assert result.exit_code == 2
    assert "no such peer: pulsar" in result.stderr
    assert started == []
