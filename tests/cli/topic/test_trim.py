"""`catchment topic trim` moves the start of partitions forward, and nothing else."""

import json

import pytest
from tests.cli.conftest import Run


@pytest.fixture
def filled(run: Run, topic: str) -> str:
    """Ten records in partition 0, a minute apart, and two in partition 1."""
    lines = [
        json.dumps({"value": f"v{number}", "timestamp": 60_000 * (number + 1), "partition": 0}) for number in range(10)
    ]
    lines += [json.dumps({"value": "other", "timestamp": 60_000, "partition": 1})] * 2
    assert run("produce", topic, "-i", "json", stdin="\n".join(lines).encode()).exit_code == 0
    return topic


def starts(run: Run, topic: str) -> list[int]:
    (description,) = json.loads(run("topic", "describe", topic, "--json").stdout)
    return [partition["start_offset"] for partition in description["partitions"]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--before", "4", "-p", "0"], [4, 0, 0]),
        (["--before", "end"], [10, 2, 0]),
        (["--before", "-3"], [7, 0, 0]),
        (["--before", "@360000"], [5, 2, 0]),
        (["--before", "1970-01-01T00:03:00Z", "-p", "0"], [2, 0, 0]),
        (["--before", "beginning"], [0, 0, 0]),
        (["--before", "4", "-p", "0", "--dry-run"], [0, 0, 0]),
    ],
)
def test_records_before_a_position_are_deleted(
    run: Run, filled: str, arguments: list[str], expected: list[int]
) -> None:
    result = run("topic", "trim", filled, *arguments, "--yes")

    assert result.exit_code == 0, result.stderr
    assert starts(run, filled) == expected


def test_what_was_deleted_is_reported(run: Run, filled: str) -> None:
    run("topic", "trim", filled, "--before", 1, "-p", 0, "-y")
    result = run("topic", "trim", filled, "--before", 4, "-p", 0, "-y", "--json")

    row = {"topic": filled, "partition": 0, "start_offset": 1, "new_start_offset": 4, "end_offset": 10}
    assert json.loads(result.stdout) == {"dry_run": False, "partitions": [row]}
    assert run("consume", filled, "-p", 0, "-n", 1).stdout == "v4\n"
    assert "0 offsets" in run("topic", "trim", filled, "--before", 4, "-p", 0, "-y").stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--before", "11", "-p", "0"], 1, "partition 0 ends at offset 10, before 11"),
        (["--before", "1", "-p", "7"], 1, "has no partition 7"),
        (["--before", "yesterday"], 2, "'yesterday' is none of"),
        ([], 2, "--before"),
    ],
)
def test_a_position_that_does_not_exist_deletes_nothing(
    run: Run, filled: str, arguments: list[str], status: int, message: str
) -> None:
    result = run("topic", "trim", filled, *arguments, "--yes")

    assert result.exit_code == status
    assert message in result.stderr
    assert starts(run, filled) == [0, 0, 0]


def test_a_topic_that_does_not_exist_is_named(run: Run) -> None:
    result = run("topic", "trim", "absent", "--before", "end", "-y")

    assert result.exit_code == 1
    assert "topic absent does not exist" in result.stderr


def test_on_a_terminal_it_asks_and_no_means_no(run: Run, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.cli.output.is_answered_by_a_person", lambda: True)

    result = run("topic", "trim", filled, "--before", "end", stdin=b"n\n")

    assert "Delete 12 offsets of topic" in result.stderr
    assert result.exit_code == 1
    assert starts(run, filled) == [0, 0, 0]
    assert run("topic", "trim", filled, "--before", "end", stdin=b"y\n").exit_code == 0
    assert starts(run, filled) == [10, 2, 0]
