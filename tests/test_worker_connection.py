"""A test process that dies ends the run, with the name of its test, also while a child that it forked lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DYING = """
import multiprocessing, os, pathlib, time

def test_that_dies():
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
    child.start()
    pathlib.Path({path!r}).write_text(str(child.pid))
    os.abort()
"""
DEADLINE_S = 300


def test_a_worker_that_dies_beside_a_forked_child_ends_the_run_with_its_test(tmp_path: Path) -> None:
    child, output = tmp_path / "child", tmp_path / "output"
    (tmp_path / "test_dying.py").write_text(DYING.format(path=str(child)))
    command = [sys.executable, "-m", "pytest", "-p", "tests.worker_connection", "-n", "1", "--max-worker-restart=0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | {"PYTEST_XDIST_WORKER": "", "PYTEST_ADDOPTS": ""}
    try:
        with output.open("w") as file:
            ended = subprocess.run(
                [*command, "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
                cwd=tmp_path,
                env=environment,
                # Not a pipe: the child that lives on has it as well.
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=DEADLINE_S,
                check=False,
            )
    finally:
        if child.exists():
            with suppress(ProcessLookupError):
                os.kill(int(child.read_text()), signal.SIGKILL)
    assert ended.returncode == 1, output.read_text()
    assert "crashed while running 'test_dying.py::test_that_dies'" in output.read_text()
