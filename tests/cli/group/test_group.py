"""`catchment group list|describe|lag|alter|delete` against a real broker. Moving groups has tests of its own."""

import json
import signal
from typing import Any

import pytest
from tests.cli.broker.test_broker import STOP_S
from tests.cli.conftest import Run, Start
from tests.cli.group.group_members import member_of, new_group
from typer.testing import CliRunner

from catchment.cli.app import app
from catchment.cli.group.offsets import Listed, Position, lag_rows
from catchment.testing.embedded import Broker

REFUSED = "non empty group (NON_EMPTY_GROUP)"
UNREACHABLE = "127.0.0.1:1"


def json_of(run: Run, *arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def read_all(run: Run, topic: str, group: str, *options: object) -> list[str]:
    result = run("consume", topic, "--group", group, "--until-end", *options)
    assert result.exit_code == 0, result.stderr
    return sorted(result.stdout.splitlines())


def test_groups_of_every_type_are_listed_with_their_state(run: Run, topic: str, bootstrap_servers: str) -> None:
    classic, modern, shared = new_group(), new_group(), new_group()
    read_all(run, topic, classic)
    run("group", "reset", shared, "--share", "-t", topic, "--to-earliest", "--execute")
    with member_of(modern, topic, bootstrap_servers, group_protocol="consumer"):
        found = {one["group"]: one for one in json_of(run, "group", "list")}
        stable = json_of(run, "group", "list", "--state", "STABLE")
    assert modern in [one["group"] for one in stable]
    assert {one["state"] for one in stable} == {"Stable"}
    assert found[classic] == {"group": classic, "type": "classic", "protocol": "consumer", "state": "Empty"}
    assert found[modern] == {"group": modern, "type": "consumer", "protocol": "consumer", "state": "Stable"}
    assert found[shared] == {"group": shared, "type": "share", "protocol": "share", "state": "Empty"}
    only = json_of(run, "group", "list", "--type", "share", "--type", "Consumer")
    assert {one["type"] for one in only} == {"share", "consumer"}
    assert f"{shared}\tshare\tshare\tEmpty" in run("group", "list").stdout.splitlines()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_members_of_a_group_are_described_with_what_they_have(
    run: Run, topic: str, bootstrap_servers: str, protocol: str
) -> None:
    group = new_group()
    settings = {"group_protocol": protocol, "group_instance_id": "desk-1", "client_id": "till"}
    with member_of(group, topic, bootstrap_servers, **settings):
        (described,) = json_of(run, "group", "describe", group)
        lines = run("group", "describe", group).stdout.splitlines()
    assert (described["type"], described["state"], described["coordinator"]) == (protocol, "Stable", 1)
    (member,) = described["members"]
    assert (member["instance"], member["client"], member["partitions"]) == ("desk-1", "till", {topic: [0, 1, 2]})
    assert lines[0] == f"group {group}  {protocol}  Stable  assignor {described['assignor']}  1 member"
    assert lines[2].split("\t")[1:3] == ["desk-1", "till"]
    assert lines[2].endswith(f"\t{topic}:0,1,2")


def test_the_members_of_a_share_group_are_described(start: Start, run: Run, topic: str, bootstrap_servers: str) -> None:
    group = new_group()
    run("group", "alter", group, "--set", "share.auto.offset.reset=earliest")
    run("produce", topic, stdin=b"work\n")
    child = start("consume", topic, "--share-group", group, "-b", bootstrap_servers)
    assert child.stdout is not None
    assert child.stdout.readline() == b"work\n"
    (described,) = json_of(run, "group", "describe", group)
    assert (described["type"], described["state"], described["assignor"]) == ("share", "Stable", "simple")
    assert [one["partitions"] for one in described["members"]] == [{topic: [0, 1, 2]}]


def test_the_lag_is_what_lies_behind_the_position(run: Run, topic: str) -> None:
    group, other = new_group(), new_group()
    run("produce", topic, "-p", 0, stdin=b"1\n2\n3\n")
    read_all(run, topic, group)
    run("produce", topic, "-p", 0, stdin=b"4\n5\n")
    read_all(run, topic, other)
    rows = json_of(run, "group", "lag", group)
    assert rows[0] == {"group": group, "topic": topic, "partition": 0, "position": 3, "end": 5, "lag": 2}
    assert [row["lag"] for row in json_of(run, "group", "lag", other, group)] == [0, 2]
    result = run("group", "lag", group)
    assert result.stdout.splitlines() == [
        "group\ttopic\tpartition\tposition\tend\tlag",
        f"{group}\t{topic}\t0\t3\t5\t2",
    ]
    assert "2 records behind in 1 partition" in result.stderr
    assert {group, other} <= {row["group"] for row in json_of(run, "group", "lag")}


def test_the_lag_of_a_share_group_leaves_out_what_is_done(run: Run, topic: str) -> None:
    group = new_group()
    run("produce", topic, "-p", 1, stdin=b"1\n2\n3\n4\n5\n")
    run("group", "reset", group, "--share", "-t", f"{topic}:1", "--to-earliest", "--execute")
    assert [row["lag"] for row in json_of(run, "group", "lag", group)] == [5]
    assert run("consume", topic, "--share-group", group, "-n", 2).stdout == "1\n2\n"
    assert [row["lag"] for row in json_of(run, "group", "lag", group) if row["partition"] == 1] == [3]


def test_a_topic_that_is_gone_has_no_end_and_no_lag() -> None:
    group = Listed("g", "classic", "consumer", "Empty")
    rows = lag_rows([(group, {("gone", 0): Position(7), ("here", 0): Position(9)})], {("here", 0): 4})
    assert [(row["end"], row["lag"]) for row in rows] == [(None, None), (4, 0)]


def test_the_lag_is_watched_until_an_interrupt(start: Start, run: Run, topic: str, bootstrap_servers: str) -> None:
    group = new_group()
    run("produce", topic, "-p", 0, stdin=b"1\n")
    read_all(run, topic, group)
    child = start("group", "lag", group, "--watch", 0.1, "--json", "-b", bootstrap_servers)
    assert child.stdout is not None
    assert json.loads(child.stdout.readline())[0]["lag"] == 0
    run("produce", topic, "-p", 0, stdin=b"2\n")
    while json.loads(child.stdout.readline())[0]["lag"] != 1:
        pass
    # An impatient person presses twice.
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=STOP_S)
    assert (child.returncode, errors) == (0, b"")


def test_a_groups_setting_is_altered_and_a_wrong_value_refused(run: Run) -> None:
    group = new_group()
    assert run("group", "alter", group, "--set", "share.record.lock.duration.ms=20000").exit_code == 0
    unset = json_of(run, "group", "alter", group, "--unset", "share.record.lock.duration.ms")
    assert unset == [{"group": group, "result": "altered"}]
    wrong = run("group", "alter", group, "--set", "share.auto.offset.reset=somewhere")
    assert wrong.exit_code == 1
    assert f"cannot alter group {group}: Invalid value somewhere" in wrong.stderr
    assert run("group", "alter", group).exit_code == 2


def test_groups_are_deleted_and_those_with_members_are_not(run: Run, topic: str, bootstrap_servers: str) -> None:
    idle, busy = new_group(), new_group()
    run("produce", topic, stdin=b"1\n")
    read_all(run, topic, idle)
    with member_of(busy, topic, bootstrap_servers):
        result = run("group", "delete", busy, idle)
        assert busy in {one["group"] for one in json_of(run, "group", "list")}
        run("group", "reset", idle, "-t", topic, "--to-earliest", "--execute")
        told = run("group", "delete", busy, idle, "--json")
    assert told.exit_code == 1
    failed, deleted = json.loads(told.stdout)
    assert failed == {"group": busy, "result": "failed", "message": f"cannot delete group {busy}: {REFUSED}"}
    assert deleted == {"group": idle, "result": "deleted"}
    assert result.exit_code == 1
    assert f"deleted group {idle}" in result.stderr
    assert f"cannot delete group {busy}: {REFUSED}" in result.stderr
    assert "Stop its members first" in result.stderr
    assert idle not in {one["group"] for one in json_of(run, "group", "list")}


@pytest.mark.parametrize("share", [False, True])
def test_the_position_in_one_topic_is_deleted(run: Run, topic: str, share: bool) -> None:
    group = new_group()
    run("topic", "create", f"{topic}-b")
    as_share = ["--share"] if share else []
    for name in (topic, f"{topic}-b"):
        assert run("group", "reset", group, *as_share, "-t", name, "--to-earliest", "--execute").exit_code == 0
    assert run("group", "delete", group, "--topic", topic).exit_code == 0
    assert {row["topic"] for row in json_of(run, "group", "lag", group)} == {f"{topic}-b"}
    again = run("group", "delete", group, "--topic", topic)
    assert again.exit_code == 1
    assert f"group {group} has no position in topic {topic}" in again.stderr


def test_the_position_in_a_topic_that_a_member_reads_stays(run: Run, topic: str, bootstrap_servers: str) -> None:
    group = new_group()
    run("group", "reset", group, "-t", topic, "--to-earliest", "--execute")
    with member_of(group, topic, bootstrap_servers):
        result = run("group", "delete", group, "-t", topic)
    assert result.exit_code == 1
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in result.stderr
    assert "Stop its members first" in result.stderr


@pytest.mark.parametrize("command", ["describe", "lag", "delete"])
def test_a_group_that_does_not_exist_is_named(run: Run, command: str) -> None:
    result = run("group", command, "missing")
    assert result.exit_code == 1
    assert "there is no group missing\n       `catchment group list` shows" in result.stderr


@pytest.mark.parametrize(
    "command", [["list"], ["describe", "g"], ["lag"], ["delete", "g"], ["alter", "g", "-s", "a=b"]]
)
def test_a_broker_that_is_gone_is_reported_by_its_address(run: Run, command: list[str]) -> None:
    result = run("group", *command, "-b", UNREACHABLE)
    assert result.exit_code == 1
    assert f"cannot reach {UNREACHABLE}" in result.stderr


def test_no_plain_connection_is_made_where_tls_is_configured(run: Run) -> None:
    result = run("group", "list", "-X", "security.protocol=SSL", "--timeout", 1)
    assert result.exit_code == 1
    assert "Check that the listener uses TLS" in result.stderr


def test_a_broker_without_groups_lists_none() -> None:
    with Broker() as broker:
        for command in ("list", "lag"):
            result = CliRunner().invoke(app, ["group", command, "-b", broker.bootstrap_servers, "--json"])
            assert (result.exit_code, json.loads(result.stdout)) == (0, [])
