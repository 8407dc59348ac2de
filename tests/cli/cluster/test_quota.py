"""`catchment quota` against a real broker."""

import json
from collections.abc import Iterator

import pytest
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def no_quotas_are_left(run: Run) -> Iterator[None]:
    yield
    for each in listed(run):
        options = [
            option
            for kind, name in each["entity"].items()
            for option in ([f"--{kind}-default"] if name is None else [f"--{kind}", name])
        ]
        assert run("quota", "remove", *options).exit_code == 0


def listed(run: Run, *options: str) -> list[dict[str, dict[str, str | None]]]:
    result = run("quota", "list", "--json", *options)
    assert result.exit_code == 0, result.output
    found: list[dict[str, dict[str, str | None]]] = json.loads(result.stdout)
    return found


def test_quotas_of_users_clients_and_addresses_are_set_and_listed(run: Run) -> None:
    assert run("quota", "set", "--user", "ann", "--client-id-default", "--produce-rate", 1000).exit_code == 0
    assert run("quota", "set", "--user-default", "--consume-rate", 2000, "--request-percent", 12.5).exit_code == 0
    assert run("quota", "set", "--ip", "10.0.0.1", "--connection-rate", 5).exit_code == 0
    assert run("quota", "set", "--client-id", "app", "--controller-mutation-rate", 0.5).exit_code == 0
    assert listed(run) == [
        {"entity": {"user": None}, "quotas": {"consumer_byte_rate": 2000.0, "request_percentage": 12.5}},
        {"entity": {"user": "ann", "client-id": None}, "quotas": {"producer_byte_rate": 1000.0}},
        {"entity": {"client-id": "app"}, "quotas": {"controller_mutation_rate": 0.5}},
        {"entity": {"ip": "10.0.0.1"}, "quotas": {"connection_creation_rate": 5.0}},
    ]
    assert [each["entity"] for each in listed(run, "--user", "ann")] == [{"user": "ann", "client-id": None}]
    table = run("quota", "list").stdout.splitlines()
    assert table[0].split("\t")[:4] == ["user", "client-id", "ip", "produce B/s"]
    assert "ann\t<default>\t\t1000\t\t\t\t" in table


def test_large_quotas_are_shown_digit_by_digit(run: Run) -> None:
    run("quota", "set", "--client-id", "app", "--produce-rate", 123_456_789, "--request-percent", 0.5)
    assert run("quota", "list").stdout.splitlines()[1].split("\t")[3:6] == ["123456789", "", "0.5"]


def test_single_quotas_are_removed_by_name_and_all_without_one(run: Run) -> None:
    run("quota", "set", "--user", "ann", "--produce-rate", 1, "--consume-rate", 2, "--request-percent", 3)
    assert "removed consumer_byte_rate of user ann" in run("quota", "remove", "--user", "ann", "--consume-rate").stderr
    assert list(listed(run)[0]["quotas"]) == ["producer_byte_rate", "request_percentage"]
    assert run("quota", "remove", "--user", "ann").exit_code == 0
    assert listed(run) == []
    absent = run("quota", "remove", "--user", "ann")
    assert absent.exit_code == 1
    assert "user ann has no such quota" in absent.stderr


def test_a_quota_that_the_broker_refuses_is_reported_with_its_reason(run: Run) -> None:
    result = run("quota", "set", "--user", "ann", "--produce-rate", -1)
    assert result.exit_code == 1
    assert "cannot alter the quotas of user ann: Quota producer_byte_rate must be greater than 0" in result.stderr


def test_a_dry_run_sets_nothing(run: Run) -> None:
    assert "valid for user ann" in run("quota", "set", "--user", "ann", "--produce-rate", 1, "--dry-run").stderr
    assert listed(run) == []


def test_what_was_set_and_removed_is_printed_as_json(run: Run) -> None:
    done = run("quota", "set", "--user", "ann", "--produce-rate", 1, "--json")
    assert json.loads(done.stdout) == [
        {"entity": {"user": "ann"}, "quotas": {"producer_byte_rate": 1.0}, "result": "set"}
    ]
    done = run("quota", "remove", "--user", "ann", "--json")
    assert json.loads(done.stdout) == [
        {"entity": {"user": "ann"}, "quotas": ["producer_byte_rate"], "result": "removed"}
    ]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "--produce-rate", "1"], "say whose quota"),
        (["set", "--user", "ann"], "nothing to set"),
        (["remove"], "say whose quota"),
        (["list", "--user", "ann", "--user-default"], "exclude each other"),
    ],
)
def test_a_command_that_is_invalid_is_rejected(run: Run, arguments: list[str], message: str) -> None:
    result = run("quota", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
