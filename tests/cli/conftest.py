"""A real broker for the commands to talk to, and ways to run a command: in this process, or as a child."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from catchment import Broker
from catchment.cli.app import app
from catchment.cli.options import BOOTSTRAP_VARIABLE

Run = Callable[..., Result]
Start = Callable[..., subprocess.Popen[bytes]]

_NUMBERS = count()


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(autouse=True)
def _no_profiles_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("CATCHMENT_PROFILE", raising=False)


@pytest.fixture
def run(bootstrap_servers: str) -> Run:
    """Run a command against the broker, in this process."""
    runner = CliRunner(env={BOOTSTRAP_VARIABLE: bootstrap_servers, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"})

    def invoke(*arguments: object, stdin: bytes = b"") -> Result:
        return runner.invoke(app, [str(argument) for argument in arguments], input=stdin, prog_name="catchment")

    return invoke


@pytest.fixture
def topic(run: Run) -> str:
    """A fresh topic of three partitions."""
    name = f"topic-{next(_NUMBERS)}"
    assert run("topic", "create", name, "-p", 3).exit_code == 0
    return name


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a command as a child process; what still runs when the test ends is killed."""
    children: list[subprocess.Popen[bytes]] = []

    def launch(*arguments: object, **environment: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-m", "catchment.cli", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, **environment},
        )
        children.append(child)
        return child

    yield launch
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate()
