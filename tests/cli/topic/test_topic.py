"""`catchment topic` against a real broker."""

import json

from tests.cli.conftest import Run


def test_a_created_topic_is_listed_with_its_partitions(run: Run, topic: str) -> None:
    listed = json.loads(run("topic", "list", "--json").stdout)

    assert {"topic": topic, "partitions": 3, "replication_factor": 1} in listed


def test_the_list_is_tab_separated_in_a_pipe(run: Run, topic: str) -> None:
    lines = run("topic", "list").stdout.splitlines()

    assert lines[0] == "topic\tpartitions\treplication factor"
    assert f"{topic}\t3\t1" in lines


def test_creating_a_topic_again_fails_and_says_what_to_do(run: Run, topic: str) -> None:
    result = run("topic", "create", topic)

    assert result.exit_code == 1
    assert f"cannot create topic {topic}" in result.stderr
    assert "--if-not-exists" in result.stderr


def test_an_existing_topic_is_accepted_if_asked(run: Run, topic: str) -> None:
    result = run("topic", "create", topic, "--if-not-exists", "--json")

    assert result.exit_code == 0
    assert json.loads(result.stdout) == [{"topic": topic, "result": "exists"}]


def test_validation_creates_nothing(run: Run) -> None:
    assert run("topic", "create", "only-checked", "--dry-run").exit_code == 0

    assert "only-checked" not in run("topic", "list").stdout


def test_one_bad_name_among_several_is_named_and_the_others_are_created(run: Run) -> None:
    result = run("topic", "create", "good-one", "bad/name", "--json")

    outcomes = {entry["topic"]: entry["result"] for entry in json.loads(result.stdout)}
    assert result.exit_code == 1
    assert outcomes == {"good-one": "created", "bad/name": "failed"}
    assert "bad/name" in result.stderr


def test_description_shows_partitions_offsets_and_settings(run: Run, topic: str) -> None:
    run("produce", topic, "-p", 1, stdin=b"a\nb\n")
    run("topic", "alter", topic, "--set", "retention.ms=12345")

    (described,) = json.loads(run("topic", "describe", topic, "--json").stdout)

    assert [partition["end_offset"] for partition in described["partitions"]] == [0, 2, 0]
    assert described["settings"] == [{"name": "retention.ms", "value": "12345", "source": "DYNAMIC_TOPIC_CONFIG"}]


def test_description_for_people_names_the_same(run: Run, topic: str) -> None:
    text = run("topic", "describe", topic, "--all-settings").stdout

    assert f"topic {topic}" in text
    assert "3 partitions" in text
    assert "cleanup.policy\tdelete\tdefault_config" in text


def test_partitions_grow_and_a_setting_returns_to_its_default(run: Run, topic: str) -> None:
    run("topic", "alter", topic, "--set", "retention.ms=12345")

    assert run("topic", "alter", topic, "--partitions", 5, "--unset", "retention.ms").exit_code == 0

    (described,) = json.loads(run("topic", "describe", topic, "--json").stdout)
    assert len(described["partitions"]) == 5
    assert described["settings"] == []


def test_partitions_cannot_shrink(run: Run, topic: str) -> None:
    result = run("topic", "alter", topic, "--partitions", 1)

    assert result.exit_code == 1
    assert f"cannot add partitions to topic {topic}" in result.stderr


def test_an_unknown_setting_is_refused_by_name(run: Run, topic: str) -> None:
    result = run("topic", "alter", topic, "--set", "retention.mz=1")

    assert result.exit_code == 1
    assert "retention.mz" in result.stderr


def test_altering_nothing_is_a_usage_error(run: Run, topic: str) -> None:
    assert run("topic", "alter", topic).exit_code == 2


def test_a_malformed_assignment_is_a_usage_error(run: Run, topic: str) -> None:
    result = run("topic", "alter", topic, "--set", "retention.ms")

    assert result.exit_code == 2
    assert "KEY=VALUE" in result.stderr


def test_a_deleted_topic_is_gone(run: Run, topic: str) -> None:
    assert run("topic", "delete", topic, "--yes").exit_code == 0

    assert topic not in run("topic", "list").stdout
    assert run("topic", "delete", topic, "--yes").exit_code == 1
    assert run("topic", "delete", topic, "--yes", "--if-exists").exit_code == 0


def test_a_topic_that_does_not_exist_is_named(run: Run) -> None:
    for command in (["describe", "nowhere"], ["alter", "nowhere", "--partitions", "2"]):
        result = run("topic", *command)
        assert result.exit_code == 1
        assert "topic nowhere does not exist" in result.stderr


def test_a_topic_named_twice_is_meant_once(run: Run, topic: str) -> None:
    described = json.loads(run("topic", "describe", topic, topic, "--json").stdout)

    assert [description["topic"] for description in described] == [topic]
