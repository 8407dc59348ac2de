"""Moving a group: the plan and its file by themselves, then `catchment group reset` against a real broker."""

import json
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Run
from tests.cli.group.group_members import member_of, new_group

from catchment.cli.failure import CommandError
from catchment.cli.group.changes import Move, parse_topics, plan, read_csv, to_csv

OFFSETS = st.integers(0, 2**63 - 1)
NAMES = st.text("abcXYZ019._-", min_size=1, max_size=20)


def test_topics_are_named_whole_or_by_partitions() -> None:
    assert parse_topics(["a", "b:2,0,2", "c: 1"]) == {"a": None, "b": [0, 2], "c": [1]}


@pytest.mark.parametrize("text", ["a:", ":1", "a:1,", "a:x", "a:-1", "a:1:2"])
def test_a_topic_that_is_misspelt_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not TOPIC"):
        parse_topics([text])


@given(st.integers(-(2**40), 2**40), st.integers(0, 2**30), st.integers(0, 2**30))
def test_a_move_never_leaves_the_log_and_says_so_where_it_would(wanted: int, start: int, length: int) -> None:
    place = ("t", 0)
    (move,) = plan([place], {}, {place: wanted}, {place: start}, {place: start + length})
    assert start <= move.target <= start + length
    assert (move.target == wanted) == (move.note == "")
    if wanted < start:
        assert (move.target, "before the start" in move.note) == (start, True)


@given(moves=st.dictionaries(st.tuples(NAMES, st.integers(0, 999)), OFFSETS, min_size=1))
def test_a_plan_survives_its_file(tmp_path_factory: pytest.TempPathFactory, moves: dict[tuple[str, int], int]) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.csv"
    path.write_text(to_csv([Move(*place, None, target) for place, target in moves.items()]))
    assert read_csv(path, "any") == moves


def test_a_file_of_several_groups_is_read_for_one(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("g,t,0,1\nh,t,0,2\n\ng,t,1, 3\n")
    assert read_csv(path, "g") == {("t", 0): 1, ("t", 1): 3}
    with pytest.raises(CommandError, match="has no line for group other"):
        read_csv(path, "other")


@pytest.mark.parametrize("line", ["t,0", "t,0,x", "t,x,0", ",0,0", "t,0,-1", "g,t,0,1,2", "t;0;1"])
def test_a_line_that_is_no_move_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "plan.csv"
    path.write_text(f"t,1,7\n{line}\n")
    with pytest.raises(CommandError) as caught:
        read_csv(path, "g")
    assert caught.value.message == f"line 2 of {path} is not topic,partition,offset: {line}"
    assert caught.value.advice is not None


def test_a_file_that_does_not_exist_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"cannot read the plan in .*missing"):
        read_csv(tmp_path / "missing", "g")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match=r"cannot read the plan in .*binary"):
        read_csv(tmp_path / "binary", "g")


def positions(run: Run, group: str) -> list[int]:
    return [row["position"] for row in json.loads(run("group", "lag", group, "--json").stdout)]


@pytest.fixture
def filled(run: Run, topic: str) -> str:
    """A topic whose first partition has ten records, a year from one to the next."""
    run("topic", "alter", topic, "--set", "message.timestamp.before.max.ms=9223372036854775807")
    lines = [
        json.dumps({"value": "x", "partition": 0, "timestamp": (year - 1970) * 31_557_600_000})
        for year in range(2001, 2011)
    ]
    assert run("produce", topic, "-i", "json", stdin="\n".join(lines).encode()).exit_code == 0
    return topic


@pytest.mark.parametrize(
    ("aim", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-offset", 4], 4),
        (["--to-offset", "9" * 30], 10),
        (["--by", -3], 2),
        (["--by", -99], 0),
        (["--by", 2], 7),
        (["--to-time", "2005-06-01T00:00:00Z"], 5),
        (["--to-time", "2030-01-01"], 10),
        (["--to-time", "@0"], 0),
        (["--to-time", "1d"], 10),
    ],
)
@pytest.mark.parametrize("share", [False, True], ids=["group", "share-group"])
def test_a_group_moves_to_the_requested_offsets(
    run: Run, filled: str, share: bool, aim: list[object], expected: int
) -> None:
    group, place = new_group(), ["-t", f"{filled}:0"]
    as_share = ["--share"] if share else []
    assert run("group", "reset", group, *as_share, *place, "--to-offset", 5, "--execute").exit_code == 0
    planned = run("group", "reset", group, *place, *aim, "--json")
    assert planned.exit_code == 0, planned.stderr
    assert "add --execute" in planned.stderr
    (move,) = json.loads(planned.stdout)
    assert (move["current"], move["target"]) == (5, expected)
    assert positions(run, group) == [5]
    done = run("group", "reset", group, "--all-topics", *aim, "--execute")
    assert done.exit_code == 0, done.stderr
    assert "moved 1 partition" in done.stderr
    assert positions(run, group) == [expected]


def test_the_next_member_begins_where_the_group_was_moved_to(run: Run, filled: str) -> None:
    group = new_group()
    run("group", "reset", group, "-t", filled, "--to-offset", 7, "--execute")
    assert run("consume", filled, "--group", group, "-e", "--format", "%o ").stdout == "7 8 9 "


def test_what_lies_outside_the_log_is_clipped_with_a_note(run: Run, filled: str) -> None:
    result = run("group", "reset", new_group(), "-t", f"{filled}:0", "--to-offset", 99)
    assert result.stdout.splitlines()[1] == f"{filled}\t0\t-\t10\t99 is beyond the end of the log"


def test_a_plan_is_saved_and_carried_out_for_another_group(run: Run, filled: str, tmp_path: Path) -> None:
    first, second = new_group(), new_group()
    run("group", "reset", first, "-t", filled, "--to-offset", 3, "--execute")
    saved = run("group", "reset", first, "--all-topics", "--by", 0, "--csv")
    assert saved.stdout == f"{filled},0,3\n{filled},1,0\n{filled},2,0\n"
    path = tmp_path / "plan.csv"
    path.write_text(saved.stdout)
    assert run("group", "reset", second, "--from-file", path, "--execute").exit_code == 0
    assert positions(run, second) == [3, 0, 0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_stays_where_it_is(run: Run, filled: str, bootstrap_servers: str, protocol: str) -> None:
    group = new_group()
    with member_of(group, filled, bootstrap_servers, group_protocol=protocol) as consumer:
        consumer.commit(offsets=[TopicPartition(filled, 0, 4)], asynchronous=False)
        result = run("group", "reset", group, "-t", filled, "--to-latest", "--execute")
        assert positions(run, group) == [4]
    assert result.exit_code == 1
    assert f"group {group} is stable: it has members\n       Stop its members first" in result.stderr


def test_a_reset_that_is_not_possible_is_reported(run: Run, filled: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("t,0,0\nnonsense\n")
    wrong: list[tuple[list[object], str]] = [
        (["-t", "nowhere", "--to-latest"], "topic nowhere does not exist"),
        (["-t", f"{filled}:7", "--to-latest"], f"topic {filled} has no partition 7"),
        (["--all-topics", "--to-latest"], "the group has no position that could be moved"),
        (["-t", filled, "--by", "1"], f"the group has no position in {filled}-0 to count from"),
        (["--from-file", bad], f"line 2 of {bad} is not topic,partition,offset"),
        (["-t", filled, "--to-latest", "-b", "127.0.0.1:1"], "cannot reach 127.0.0.1:1"),
    ]
    for arguments, message in wrong:
        result = run("group", "reset", "newcomer", *arguments)
        assert (result.exit_code, message in result.stderr) == (1, True), result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t", "t"], "give exactly one of --to-earliest"),
        (["-t", "t", "--to-latest", "--to-earliest"], "give exactly one of --to-earliest"),
        (["--to-latest"], "give either --topic or --all-topics"),
        (["-t", "t", "--all-topics", "--to-latest"], "give either --topic or --all-topics"),
        (["--all-topics", "--from-file", "x"], "give either --topic or --all-topics"),
        (["-t", "t", "--to-time", "soonish"], "'soonish' is no time"),
        (["-t", "t", "--to-time", "end"], "'end' is no time"),
        (["-t", "t:x", "--to-latest"], "is not TOPIC or TOPIC:PARTITION"),
    ],
)
def test_a_reset_that_is_invalid_is_rejected(run: Run, arguments: list[str], message: str) -> None:
    result = run("group", "reset", "g", *arguments)
    assert result.exit_code == 2
    # The frame around the message may have broken it into lines.
    assert message in " ".join(result.stderr.replace("│", " ").split())
