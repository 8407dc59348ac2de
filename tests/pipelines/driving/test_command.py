"""`catchment pipeline run`, `status` and `stop`, with a driver that has no Spark."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.pipelines.driving.supervised import is_alive, starts, wait_for
from typer.testing import CliRunner, Result

from catchment import Broker
from catchment.cli.app import app
from catchment.pipelines.checks import preflight
from catchment.pipelines.driving.driver_options import DriverOptions
from catchment.pipelines.driving.supervision.run_file import RunLock, is_running, write_run
from catchment.pipelines.home import Home

Command = Callable[..., Result]
PIPELINE = """
pipeline: city
sources:
  reports: {topic: reports, format: text}
sinks:
  - {from: reports, store: "sqlite:///city.db", table: reports}
"""
WITH_FAKE_DRIVER = """
import sys
from pathlib import Path
from catchment.cli.app import run
from catchment.pipelines.driving.driver_options import DriverOptions
DriverOptions.command = lambda options: [sys.executable, {driver!r}, {what!r}, str(options.home)]
run()
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("reports")
        yield broker


@pytest.fixture(autouse=True)
def brokers(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the pipeline reads from, which are looked at before a driver is started."""
    monkeypatch.setenv("CATCHMENT_BOOTSTRAP_SERVERS", broker.bootstrap_servers)


@pytest.fixture
def command(tmp_path: Path) -> Command:
    runner = CliRunner(env={"NO_COLOR": "1", "TERM": "dumb", "CATCHMENT_PIPELINES_HOME": str(tmp_path)})

    def invoke(*arguments: object) -> Result:
        return runner.invoke(app, ["pipeline", *map(str, arguments)], prog_name="catchment")

    return invoke


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "city.yaml"
    file.write_text(PIPELINE)
    return file


def _pipeline(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, arguments)], prog_name="catchment")


@contextmanager
def run_with(what: str, file: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, with a fake driver."""
    driver = str(Path(__file__).with_name("fake_driver.py"))
    program = WITH_FAKE_DRIVER.format(driver=driver, what=what)
    arguments = [sys.executable, "-c", program, "pipeline", "run", str(file), "--home", str(file.parent), *options]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_all_mistakes_are_reported_with_their_lines_before_anything_starts(command: Command, file: Path) -> None:
    file.write_text(PIPELINE.replace("format: text", "format: tex").replace("from: reports", "from: report"))

    result = command("run", file)

    assert result.exit_code == 2
    assert f"{file}:4: sources.reports.format" in result.stderr
    assert f"{file}:6: nothing is named report" in result.stderr
    assert not (file.parent / "city").exists()


def test_a_variable_that_is_not_set_is_a_mistake(command: Command, file: Path) -> None:
    file.write_text(PIPELINE.replace("sqlite:///city.db", "${NO_SUCH_STORE}"))

    result = command("run", file)

    assert result.exit_code == 2
    assert f"error: {file}:6: the environment variable NO_SUCH_STORE is not set" in result.stderr


def test_a_topic_that_does_not_exist_is_named_with_its_line_before_spark_starts(command: Command, file: Path) -> None:
    file.write_text(PIPELINE.replace("topic: reports", "topic: report"))

    result = command("run", file)

    assert result.exit_code == 2
    assert (
        f"error: {file}:4: the topic report of sources.reports does not exist; did you mean reports?" in result.stderr
    )
    assert "`catchment topic create report`" in result.stderr
    assert not (file.parent / "city").exists(), "no run has begun"


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_brokers_that_are_away_are_named_before_spark_starts(
    command: Command, file: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "START_WAIT_S", 0.1)
    # Nothing listens on port 1.
    result = command(verb, file, "--bootstrap-server", "127.0.0.1:1")

    assert result.exit_code == 5
    assert "error: no broker answers at 127.0.0.1:1 (connection refused)" in result.stderr
    assert not (file.parent / "city").exists(), "no run has begun"


def test_the_exit_code_is_the_drivers_and_json_tells_how_it_ended(file: Path) -> None:
    with run_with("exit-4", file, "--available-now", "--json") as process:
        output, _ = process.communicate(timeout=300)

    assert process.returncode == 4
    ended = json.loads(output)
    assert (ended["pipeline"], ended["state"], ended["exit_code"]) == ("city", "failed", 4)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_the_run_and_all_of_its_processes(file: Path, number: int, code: int) -> None:
    home = Home(file.parent, "city")
    with run_with("wait", file) as process:
        wait_for("the driver starts", lambda: len(starts(home)) > 0)
        process.send_signal(number)
        process.communicate(timeout=300)

    assert process.returncode == code
    assert not any(is_alive(one) for pair in starts(home) for one in pair)


def test_stop_ends_what_runs_and_status_shows_both(command: Command, file: Path) -> None:
    home = Home(file.parent, "city")
    with run_with("wait", file, "--master", "spark://one:7077") as process:
        wait_for("the driver starts", lambda: len(starts(home)) > 0)
        running = json.loads(command("status", "city", "--json").stdout)
        of_another = json.loads(command("status", "--master", "spark://two:7077", "--json").stdout)
        stopped = command("stop", "--master", "spark://one:7077")
        process.communicate(timeout=300)

    assert (running["state"], running["pid"], running["master"]) == ("starting", process.pid, "spark://one:7077")
    assert of_another == []
    assert stopped.exit_code == 0
    assert process.returncode == 0
    assert not is_running(home)
    assert json.loads(command("status", "city", "--json").stdout)["state"] == "stopped"
    assert command("stop", "city").exit_code == 1


def test_a_pipeline_that_runs_in_another_home_is_found_by_its_name_and_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """The commands do not get its home, and search all that run on this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CATCHMENT_PIPELINES_HOME", raising=False)
    with run_with("wait", file) as process:
        wait_for("the driver starts", lambda: len(starts(Home(tmp_path, "city"))) > 0)
        [listed] = json.loads(_pipeline("status", "--json").stdout)
        by_name = json.loads(_pipeline("status", "city", "--json").stdout)
        in_a_home = _pipeline("status", "city", "--home", tmp_path / "empty")
        stopped = _pipeline("stop", file)
        process.communicate(timeout=300)

    assert listed["pid"] == by_name["pid"] == process.pid
    assert listed["home"] == str(tmp_path)
    assert in_a_home.exit_code == 1
    assert (stopped.exit_code, process.returncode) == (0, 0)
    assert json.loads(_pipeline("status", "--json").stdout) == [], "what has ended elsewhere is not kept"
    assert not list((tmp_path / "state" / "catchment" / "running").iterdir())


def test_two_pipelines_of_one_name_are_distinguished_by_their_homes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CATCHMENT_PIPELINES_HOME", raising=False)
    homes = [Home(tmp_path / name, "city") for name in ("one", "two")]
    locks = [RunLock(home) for home in homes]
    for home in homes:
        write_run(home, {"pipeline": "city", "version": 1, "state": "running", "pid": os.getpid()})
    try:
        result = _pipeline("stop", "city")
        assert result.exit_code == 1
        assert all(str(home.root) in result.stderr for home in homes)
        assert "--home" in result.stderr
        assert sorted(one["home"] for one in json.loads(_pipeline("status", "--json").stdout)) == [
            str(home.root) for home in homes
        ]
    finally:
        for lock in locks:
            lock.close()


def test_a_second_run_reports_which_process_runs_the_pipeline(file: Path) -> None:
    with run_with("wait", file) as first:
        wait_for("the driver starts", lambda: len(starts(Home(file.parent, "city"))) > 0)
        with run_with("exit-0", file) as second:
            _, said = second.communicate(timeout=300)

    assert second.returncode == 1
    assert f"process {first.pid} runs pipeline city" in said
    assert "catchment pipeline stop city" in said


def test_status_is_a_table_with_a_line_for_each_query(command: Command, tmp_path: Path) -> None:
    query = {"name": "clean", "rows_per_s": 12.5, "lag": 3, "watermark": None, "batch_ms": 80, "restarts": 1}
    home = Home(tmp_path, "city")
    home.folder.mkdir()
    run = {"pipeline": "city", "version": 2, "state": "running", "pid": 7, "queries": [query]}
    write_run(home, run | {"faults": ["it drops rows"], "notes": ["it is slow"]})

    result = command("status")

    assert result.stdout.splitlines()[1].split("\t") == [
        "city",
        "2",
        "killed",
        "7",
        "clean",
        "0.0",
        "3",
        "–",
        "80",
        "1",
    ]
    assert result.stderr.splitlines() == ["city: it is slow", "city: ! it drops rows"]


@pytest.mark.parametrize("damaged", ["", "[]", "{}"])
def test_a_damaged_run_file_hides_no_other_pipeline_from_the_status(
    command: Command, tmp_path: Path, damaged: str
) -> None:
    for name in ("city", "town"):
        home = Home(tmp_path, name)
        home.folder.mkdir()
        write_run(home, {"pipeline": name, "version": 2, "state": "stopped", "pid": 7})
    Home(tmp_path, "city").run_file.write_text(damaged)

    result = command("status")

    rows = [line.split("\t")[:4] for line in result.stdout.splitlines()[1:]]
    assert rows == [["city", "–", "unknown", "–"], ["town", "2", "stopped", "7"]]
    assert f"city: {Home(tmp_path, 'city').run_file} cannot be read" in result.stderr
    assert command("stop", "city").exit_code == 1


def test_an_unknown_pipeline_is_reported_with_the_folder_that_was_searched(command: Command, tmp_path: Path) -> None:
    result = command("status", "town")

    assert result.exit_code == 1
    assert f"pipeline town never ran in {tmp_path}" in result.stderr


def test_a_taken_status_port_is_reported_on_the_terminal(file: Path) -> None:
    """With the driver that has Spark, which ends before it starts Spark; what it prints goes to a log meanwhile."""
    command = [sys.executable, "-m", "catchment.cli", "pipeline", "run", str(file), "--home", str(file.parent)]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        reader, terminal = pty.openpty()
        with subprocess.Popen([*command, "--status-port", str(port)], stderr=terminal) as process:
            os.close(terminal)
            said = _read_to_the_end(reader)

    assert process.returncode == 2
    assert f"error: the status cannot be served on port {port}: Address already in use" in said
    assert "--status-port" in said


def _read_to_the_end(reader: int) -> str:
    """A terminal ends with an error when no process has its other end open any more."""
    said = b""
    with suppress(OSError):
        while data := os.read(reader, 65_536):
            said += data
    os.close(reader)
    return said.decode()


def test_the_options_reach_the_driver_as_they_were_given() -> None:
    options = DriverOptions(
        Path("/a b/city.py"), Path("/home"), "local[2]", "one:1,two:2", False, 8080, "http://lineage", 12.5
    )

    assert DriverOptions.parse(options.command()[3:]) == options


def test_neither_spark_nor_pydantic_is_loaded_for_the_help() -> None:
    program = "import sys, catchment.cli.pipeline.commands; print([name for name in ('pyspark', 'pydantic') if name in sys.modules])"

    found = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, env=os.environ
    )

    assert found.stdout.strip() == "[]"
