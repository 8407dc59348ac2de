"""The errors when the cluster cannot be reached."""

import socket
import time

import pytest
from tests.cli.conftest import Run

from catchment.cli.failure import CommandError
from catchment.cli.wire import split_address


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.mark.parametrize(
    "command",
    [["topic", "list"], ["topic", "create", "t"], ["produce", "t"], ["consume", "t"], ["topic", "delete", "t"]],
)
def test_a_refused_connection_is_reported_within_seconds(run: Run, closed_port: int, command: list[str]) -> None:
    started_at = time.monotonic()

    result = run(*command, "-b", f"127.0.0.1:{closed_port}", "--timeout", "120")

    assert time.monotonic() - started_at < 60
    assert result.exit_code == 1
    assert f"cannot reach 127.0.0.1:{closed_port} (connection refused)" in result.stderr
    assert "catchment up" in result.stderr


@pytest.mark.parametrize("command", [["topic", "list"], ["produce", "t"], ["consume", "t"]])
def test_a_server_that_is_not_kafka_is_reported(run: Run, command: list[str]) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        result = run(*command, "--timeout", 1, "-b", f"127.0.0.1:{mute.getsockname()[1]}")

    assert result.exit_code == 1
    assert "no Kafka broker answered" in result.stderr


def test_one_server_of_several_is_enough(run: Run, bootstrap_servers: str, closed_port: int) -> None:
    assert run("topic", "list", "-b", f"127.0.0.1:{closed_port},{bootstrap_servers}").exit_code == 0


def test_a_host_that_does_not_exist_is_named(run: Run) -> None:
    result = run("topic", "list", "-b", "no-such-host.invalid:9092")

    assert result.exit_code == 1
    assert "cannot reach no-such-host.invalid:9092" in result.stderr


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("broker:1234", ("broker", 1234)),
        ("broker", ("broker", 9092)),
        ("[::1]:1234", ("::1", 1234)),
        ("::1", ("::1", 9092)),
    ],
)
def test_addresses_are_read_as_people_write_them(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["", "broker:port", ":9092", "broker:0", "broker:65536"])
def test_what_is_no_address_is_rejected(address: str) -> None:
    with pytest.raises(CommandError):
        split_address(address)
