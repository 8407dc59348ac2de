"""The supervisor: it starts drivers again, stops them, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.pipelines.driving import supervised
from tests.pipelines.driving.supervised import is_alive, starts, supervisor, wait_for

from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.supervision.cleanup import Scratch
from catchment.pipelines.driving.supervision.run_file import AlreadyRunning, is_running, read_run, report, write_run
from catchment.pipelines.driving.supervision.supervisor import Limits, Supervisor
from catchment.pipelines.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path, "city")


@contextmanager
def running(supervisor: Supervisor, home: Home) -> Iterator[list[int]]:
    """The supervisor on a thread, with its driver started; its exit code is in the list when it has ended."""
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(supervisor.run()))
    thread.start()
    try:
        wait_for("the driver starts", lambda: len(starts(home)) > 0)
        yield codes
    finally:
        supervisor.ask_to_stop(signal.SIGTERM)
        supervisor.ask_to_stop(signal.SIGTERM)
        thread.join(supervised.DEADLINE_S)
    assert not thread.is_alive()


def test_nothing_is_left_of_a_driver_that_is_done(home: Home) -> None:
    assert supervisor(home, "exit-0").run() == ExitCode.DONE

    [(driver, child)] = starts(home)
    assert not is_alive(driver)
    assert not is_alive(child)
    assert not is_running(home)


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 130])
def test_a_driver_that_ends_for_good_is_not_started_again(home: Home, code: int) -> None:
    assert supervisor(home, f"exit-{code}").run() == code

    assert len(starts(home)) == 1
    assert (read_run(home) or {})["exit_code"] == code


def test_a_driver_that_is_killed_is_started_again_once_its_child_is_gone(home: Home) -> None:
    assert supervisor(home, "die-once").run() == ExitCode.DONE

    assert len(starts(home)) == 2
    assert not any(is_alive(process) for pair in starts(home) for process in pair)
    assert (read_run(home) or {})["driver_starts"] == 2


@pytest.mark.parametrize("what", ["die", "exit-75"])
def test_a_driver_that_is_lost_again_and_again_ends_the_run(home: Home, what: str) -> None:
    assert supervisor(home, what).run() == ExitCode.FAILED

    assert len(starts(home)) == supervised.QUICK.starts
    run = report(home)
    assert run["state"] == "failed"
    assert "not restarted" in run["error"]


@pytest.mark.parametrize(
    ("number", "is_endless", "code"),
    [
        (signal.SIGTERM, True, ExitCode.DONE),
        (signal.SIGINT, True, ExitCode.INTERRUPTED),
        (signal.SIGTERM, False, ExitCode.DONE),
    ],
)
def test_a_run_that_is_asked_to_stop_says_by_its_code_who_asked(
    home: Home, number: int, is_endless: bool, code: int
) -> None:
    one = supervisor(home, "wait", is_endless=is_endless)
    with running(one, home) as codes:
        one.ask_to_stop(number)
        wait_for("the supervisor returns", lambda: bool(codes))

    # The fake driver returns 0 when it is asked to stop: with --available-now that means that it was done.
    assert codes == [code]
    assert report(home)["state"] == "stopped"
    assert not any(is_alive(process) for pair in starts(home) for process in pair)


@pytest.mark.parametrize(
    ("number", "is_endless", "code"),
    [
        (signal.SIGTERM, True, ExitCode.DONE),
        (signal.SIGINT, True, ExitCode.INTERRUPTED),
        (signal.SIGTERM, False, ExitCode.INTERRUPTED),
    ],
)
def test_a_driver_that_does_not_stop_is_killed(home: Home, number: int, is_endless: bool, code: int) -> None:
    one = supervisor(home, "stubborn", is_endless=is_endless)
    with running(one, home) as codes:
        wait_for("the driver ignores signals", (home.root / "ready").exists)
        one.ask_to_stop(number)
        wait_for("the supervisor returns", lambda: bool(codes))

    assert codes == [code]
    assert not any(is_alive(process) for pair in starts(home) for process in pair)


def test_a_second_request_does_not_wait_for_the_driver(home: Home) -> None:
    """The driver would have an hour."""
    one = supervisor(home, "stubborn", limits=replace(supervised.QUICK, stop_s=3600.0))
    with running(one, home) as codes:
        wait_for("the driver ignores signals", (home.root / "ready").exists)
        one.ask_to_stop(signal.SIGINT)
        assert not codes
        one.ask_to_stop(signal.SIGINT)
        wait_for("the supervisor returns", lambda: bool(codes))

    assert codes == [ExitCode.INTERRUPTED]


def test_a_stop_takes_at_most_three_seconds_by_default() -> None:
    assert Limits().stop_s <= 2.0, "the rest is for the end of what was killed"


def test_no_query_seems_to_run_when_the_run_has_ended(home: Home) -> None:
    one = supervisor(home, "stubborn")
    with running(one, home) as codes:
        wait_for("the driver ignores signals", (home.root / "ready").exists)
        queries = [
            {"name": "clean", "state": "running", "rows_per_s": 7.0, "waits_for": None},
            {"name": "board", "state": "waiting", "rows_per_s": 0.0, "waits_for": "the brokers"},
            {"name": "late", "state": "done", "rows_per_s": 0.0, "waits_for": None},
        ]
        write_run(home, (read_run(home) or {}) | {"queries": queries})
        one.ask_to_stop(signal.SIGTERM)
        wait_for("the supervisor returns", lambda: bool(codes))

    ended = report(home)["queries"]
    assert [(one["state"], one["waits_for"], one["rows_per_s"]) for one in ended] == [
        ("stopped", None, 0.0),
        ("stopped", None, 0.0),
        ("done", None, 0.0),
    ]


def test_temporary_files_of_a_run_are_removed_whichever_process_is_killed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _remove_temporary_files(home, Path(folder), monkeypatch)


def test_a_path_that_is_too_long_for_sockets_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"/tmp/{'long' * 20}")
    assert Scratch().folder.parent == Path("/tmp")


def _remove_temporary_files(home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver ignores signals, and the run before was killed together with its supervisor."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    left = folder / "catchment-run-of-a-killed-supervisor"
    (left / "blockmgr").mkdir(parents=True)
    write_run_of(home, left)

    one = supervisor(home, "stubborn")
    with running(one, home) as codes:
        wait_for("the driver ignores signals", (home.root / "ready").exists)
        [scratch] = folder.iterdir()
        variables = Path(f"/proc/{starts(home)[0][0]}/environ").read_text().split("\0")
        one.ask_to_stop(signal.SIGTERM)
        wait_for("the supervisor returns", lambda: bool(codes))

    assert scratch != left, "what the earlier run left is gone"
    assert {f"TMPDIR={scratch}", f"SPARK_LOCAL_DIRS={scratch}"} <= set(variables)
    assert not list(folder.iterdir())


def test_a_run_file_cannot_have_other_folders_removed(home: Home, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    write_run_of(home, precious)

    assert supervisor(home, "exit-0").run() == ExitCode.DONE
    assert precious.is_dir()


def write_run_of(home: Home, scratch: Path) -> None:
    """What a run that was killed has left."""
    home.folder.mkdir(exist_ok=True)
    write_run(home, {"pipeline": "city", "state": "running", "run_id": "gone", "scratch": str(scratch)})


def test_a_pipeline_does_not_run_twice_and_the_second_reports_which_process_runs_it(home: Home) -> None:
    first = supervisor(home, "wait")
    with (
        running(first, home),
        pytest.raises(AlreadyRunning, match=rf"process {os.getpid()} runs pipeline city since 20"),
    ):
        supervisor(home, "exit-0").run()

    assert len(starts(home)) == 1


def test_a_supervisor_that_is_killed_takes_its_driver_with_it(home: Home) -> None:
    program = [sys.executable, supervised.__file__, "wait", str(home.root)]
    with subprocess.Popen(program, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}) as process:
        wait_for("the driver starts", lambda: len(starts(home)) > 0)
        [(driver, child)] = starts(home)
        process.kill()

    wait_for("the driver ends", lambda: not is_alive(driver) and not is_alive(child))
    assert report(home)["state"] == "killed"


def test_what_a_killed_run_left_behind_is_ended_before_the_next_driver_starts(home: Home) -> None:
    program = [sys.executable, supervised.__file__, "stubborn", str(home.root)]
    with subprocess.Popen(program, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}) as process:
        wait_for("the driver starts", lambda: (home.root / "ready").exists())
        [(driver, child)] = starts(home)
        process.kill()
    os.kill(driver, signal.SIGKILL)
    wait_for("the lock is free", lambda: not is_running(home))
    assert is_alive(child)

    assert supervisor(home, "exit-0").run() == ExitCode.DONE
    assert not is_alive(child)


def test_a_run_file_is_never_seen_half_written(home: Home) -> None:
    home.folder.mkdir(parents=True)
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            write_run(home, {"state": "running", "number": number, "filler": "x" * 100_000})
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wait_for("the first is written", home.run_file.exists)
        for _ in range(500):
            assert read_run(home) is not None
    finally:
        is_over.set()
        thread.join()
