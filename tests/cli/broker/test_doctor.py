"""`catchment doctor` finds what would keep a broker from working, and says so."""

import json
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from catchment import Broker
from catchment.cli.app import app
from catchment.cli.broker import doctor


def examine(directory: Path, port: int = 0, *arguments: str) -> Result:
    settings = ["--set", f"log.dirs={directory}", "--set", f"listeners=PLAINTEXT://127.0.0.1:{port}"]
    return CliRunner().invoke(app, ["doctor", *settings, *arguments])


def findings(result: Result) -> dict[str, dict[str, Any]]:
    return {finding["check"]: finding for finding in json.loads(result.stdout)}


@pytest.fixture
def mute_port() -> Iterator[int]:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        yield mute.getsockname()[1]


def test_a_machine_that_can_run_a_broker_passes(tmp_path: Path) -> None:
    result = examine(tmp_path / "data", 0, "--json")

    found = findings(result)
    assert result.exit_code == 0, result.stderr
    assert found["python"]["verdict"] == "ok"
    assert found["kio"]["verdict"] == "ok"
    assert found["sync"]["detail"].endswith(" ms")
    assert not (tmp_path / "data").exists()


def test_the_report_for_people_has_a_line_a_check(tmp_path: Path) -> None:
    lines = examine(tmp_path).stdout.splitlines()

    assert any(line.startswith("✓ python: 3.") for line in lines)
    assert any("free space" in line for line in lines)


def test_a_directory_that_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    result = examine(tmp_path / "file")

    assert result.exit_code == 1
    assert f"data directory {tmp_path}/file" in result.stderr


def test_a_port_that_another_program_holds_fails(
    tmp_path: Path, mute_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_BROKER_ANSWER_S", 0.2)

    result = examine(tmp_path, mute_port)

    assert result.exit_code == 1
    assert f"port 127.0.0.1:{mute_port}" in result.stderr


def test_a_broker_that_runs_already_is_no_failure(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        found = findings(examine(tmp_path / "data", port, "--json"))

    assert found[f"port 127.0.0.1:{port}"]["verdict"] == "note"


def test_few_descriptors_draw_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))

    finding = doctor.check_descriptors()

    assert finding.verdict is doctor.Verdict.WARNING
    assert "ulimit -n 4096" in finding.advice


def test_little_space_draws_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_LITTLE_SPACE_BYTES", 1 << 62)

    assert findings(examine(tmp_path, 0, "--json"))["free space"]["verdict"] == "warning"


def test_a_missing_library_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_LIBRARIES", ("no-such-library",))

    assert [finding.verdict for finding in doctor.check_versions()][1] is doctor.Verdict.FAILURE
