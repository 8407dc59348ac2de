"""`catchment broker` and `catchment up` as child processes: what supervisors and people see."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Start

from catchment.ports.network import free_port

STOP_S = 150
NEEDED_LATER = (
    *("typer", "rich", "confluent_kafka", "prometheus_client"),
    *(
        "catchment.coordination.groups.shard",
        "catchment.coordination.groups.consumer",
        "catchment.coordination.groups.share",
    ),
    *("catchment.coordination.share_state.shard", "catchment.coordination.transactions.shard"),
    *("catchment.broker.share.leader",),
)
"""The other commands alone import the first line, and the first group, transaction or adopted directory the rest."""


def wait_for_address(child: "subprocess.Popen[bytes]") -> str:
    """The address in the line that a broker prints once clients can connect."""
    assert child.stdout is not None
    line = child.stdout.readline().decode()
    assert line.startswith("listening on PLAINTEXT://"), child.communicate(timeout=STOP_S)
    return line.strip().removeprefix("listening on PLAINTEXT://")


def settings(directory: Path, port: int = 0) -> list[str]:
    return ["--set", f"log.dirs={directory}", "--set", f"listeners=PLAINTEXT://127.0.0.1:{port}"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["broker", "up"])
def test_a_signal_stops_it_cleanly(start: Start, tmp_path: Path, command: str, number: signal.Signals) -> None:
    child = start(command, *settings(tmp_path / "data"))
    wait_for_address(child)

    child.send_signal(number)
    _, errors = child.communicate(timeout=STOP_S)

    assert child.returncode == 0, errors
    assert b"Traceback" not in errors
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_records_survive_a_restart(start: Start, tmp_path: Path) -> None:
    first = start("broker", *settings(tmp_path / "data"))
    address = wait_for_address(first)
    assert start("topic", "create", "kept", "-b", address).wait(STOP_S) == 0
    producer = start("produce", "kept", "-b", address)
    producer.communicate(b"still here\n", timeout=STOP_S)
    assert producer.returncode == 0
    first.terminate()
    assert first.wait(STOP_S) == 0

    second = start("broker", *settings(tmp_path / "data"))
    output, _ = start("consume", "kept", "-e", "-b", wait_for_address(second)).communicate(timeout=STOP_S)

    assert output == b"still here\n"


def test_a_file_gives_settings_and_the_command_line_overrides_it(start: Start, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "server.properties").write_text(f"log.dirs={tmp_path}/wrong\nlisteners=PLAINTEXT://127.0.0.1:{port}\n")

    child = start("broker", "--config", "server.properties", "--set", f"log.dirs={tmp_path}/right")

    assert wait_for_address(child) == f"127.0.0.1:{port}"
    assert (tmp_path / "right").exists()
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    ("command", "advice"), [("broker", "--set listeners=PLAINTEXT://127.0.0.1:"), ("up", "--port ")]
)
@pytest.mark.parametrize(
    "setting", ["listeners=PLAINTEXT://127.0.0.1:{port}", "catchment.metrics.listener=127.0.0.1:{port}"]
)
def test_a_busy_port_is_named_with_the_option_that_chooses_another_and_creates_nothing(
    start: Start, tmp_path: Path, command: str, advice: str, setting: str
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        child = start(command, *settings(tmp_path / "data"), "--set", setting.format(port=port))
        _, errors = child.communicate(timeout=STOP_S)

    assert child.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}: the port is in use" in errors.decode()
    is_metrics = setting.startswith("catchment.metrics")
    assert ("--set catchment.metrics.listener=" if is_metrics else f"{advice}{port + 1}") in errors.decode()
    assert b"Traceback" not in errors
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("command", "advice"), [("broker", "--set log.dirs=DIRECTORY"), ("up", "--data DIRECTORY")])
def test_a_directory_in_use_is_named(start: Start, tmp_path: Path, command: str, advice: str) -> None:
    wait_for_address(start("broker", *settings(tmp_path / "data")))

    second = start(command, *settings(tmp_path / "data"))
    _, errors = second.communicate(timeout=STOP_S)

    assert second.returncode == 1
    assert f"{tmp_path}/data is in use by another process" in errors.decode()
    assert advice in errors.decode()


def test_a_directory_of_another_node_is_named(start: Start, tmp_path: Path) -> None:
    first = start("broker", *settings(tmp_path))
    wait_for_address(first)
    first.terminate()
    first.wait(30)
    second = start("broker", *settings(tmp_path), "--set", "node.id=7")
    _, errors = second.communicate(timeout=150)
    assert second.returncode == 1
    assert b"belongs to node 1" in errors
    assert b"bug" not in errors


@pytest.mark.parametrize(("command", "advice"), [("broker", "--set log.dirs=DIRECTORY"), ("up", "--data DIRECTORY")])
@pytest.mark.parametrize("below", ["file/data", "file"])
def test_a_directory_that_cannot_be_made_is_named(
    start: Start, tmp_path: Path, command: str, advice: str, below: str
) -> None:
    (tmp_path / "file").write_text("no directory")

    child = start(command, *settings(tmp_path / below))
    _, errors = child.communicate(timeout=STOP_S)

    assert child.returncode == 1
    assert f"cannot write to {tmp_path}/file" in errors.decode()
    assert advice in errors.decode()
    assert b"Traceback" not in errors


@pytest.mark.parametrize("command", ["broker", "up"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "log.dirz=x"], "Did you mean log.dir?"),
        (["--set", "foo.bar=1"], "foo.bar"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "num.partitions"], "is not KEY=VALUE"),
        (["--set", "listeners=PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"], "PLAINTEXT"),
        (["--config", "missing.properties"], "cannot read the settings in missing.properties"),
        (["--config", "."], "cannot read the settings in ."),
        (["--config", "bad.properties"], "bad.properties"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_settings_that_cannot_be_used_are_named_and_end_with_2(
    start: Start, tmp_path: Path, command: str, arguments: list[str], message: str
) -> None:
    (tmp_path / "bad.properties").write_bytes(b"\xff\xfe no properties")
    child = start(command, *arguments)
    _, errors = child.communicate(timeout=STOP_S)

    assert child.returncode == 2, errors
    assert message in errors.decode()
    assert b"Traceback" not in errors
    assert b"bug" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["bad.properties"]


def test_starting_a_broker_loads_nothing_that_only_others_or_later_requests_need() -> None:
    code = "import sys; sys.argv[1:] = ['broker', '--set', 'log.dirs=/dev/null/x']\n"
    code += "from catchment.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += f"print(*[name for name in {NEEDED_LATER} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=STOP_S, check=True)

    assert done.stdout.strip() == ""
    assert "cannot write to /dev/null/x" in done.stderr


def test_metrics_are_served_where_asked(start: Start, tmp_path: Path) -> None:
    port = free_port()
    child = start("broker", *settings(tmp_path / "data"), "--set", f"catchment.metrics.listener=127.0.0.1:{port}")
    wait_for_address(child)

    with socket.create_connection(("127.0.0.1", port), STOP_S) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        page = b"".join(iter(lambda: client.recv(65536), b""))

    assert b"kafka_server_replicamanager_partitioncount 0.0" in page


@pytest.mark.parametrize(
    ("address", "message"),
    [("192.0.2.1:9092", "this machine has no such address"), ("no-such-host.invalid:9092", "no such address")],
)
def test_an_address_of_another_machine_is_named_and_creates_nothing(
    start: Start, tmp_path: Path, address: str, message: str
) -> None:
    child = start("up", "--data", tmp_path / "data", "--set", f"listeners=PLAINTEXT://{address}")
    _, errors = child.communicate(timeout=STOP_S)

    assert child.returncode == 1
    assert f"cannot listen on {address}: " in errors.decode()
    assert message in errors.decode()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("option", "setting"), [("--port=0", "listeners=PLAINTEXT://127.0.0.1:0"), ("--data=x", "log.dirs=y")]
)
def test_an_option_and_a_setting_that_contradict_each_other_are_rejected(
    start: Start, tmp_path: Path, option: str, setting: str
) -> None:
    child = start("up", option, "--set", setting)
    _, errors = child.communicate(timeout=STOP_S)

    assert child.returncode == 2
    assert "not both" in errors.decode()
    assert list(tmp_path.iterdir()) == []
