"""`catchment produce` to a topic that does not exist, and from a terminal."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from tests.cli.broker.test_broker import STOP_S
from tests.cli.conftest import Run

from catchment import Broker


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    with Broker(settings={"num.partitions": 3}) as broker:
        yield broker.bootstrap_servers


def test_a_topic_that_the_broker_creates_is_reported(run: Run) -> None:
    result = run("produce", "fresh", stdin=b"a\nb\n")

    assert result.exit_code == 0
    assert "created topic fresh with 3 partitions\n" in result.stderr
    assert "sent 2 records" in result.stderr
    assert "created topic" not in run("produce", "fresh", stdin=b"c\n").stderr


def test_scripts_see_whether_a_topic_was_created(run: Run) -> None:
    first, second = (json.loads(run("produce", "scripted", "--json", "-q", stdin=b"a\n").stdout) for _ in range(2))

    assert (first["created"], second["created"]) == (True, False)


def test_no_topic_is_created_where_that_is_not_wanted(run: Run) -> None:
    result = run("produce", "unwanted", "--no-create", stdin=b"a\n")

    assert result.exit_code == 1
    assert "topic unwanted does not exist" in result.stderr
    assert "unwanted" not in run("topic", "list").stdout


def test_a_name_that_no_topic_can_have_is_reported(run: Run) -> None:
    result = run("produce", "not a topic", stdin=b"a\n")

    assert result.exit_code == 1
    assert "cannot create topic not a topic" in result.stderr


def test_on_a_terminal_no_progress_bar_mixes_with_the_input(bootstrap_servers: str) -> None:
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "catchment.cli", "produce", "typed", "-b", bootstrap_servers, "--rate", "1000"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(slave)
    drawn = b""
    deadline = time.monotonic() + STOP_S
    try:
        while b"Ctrl-D" not in drawn:
            assert time.monotonic() < deadline, drawn
            drawn += os.read(master, 65536)
        os.write(master, b"first\nsecond\n\x04")
        while b"sent 2 records" not in drawn:
            assert time.monotonic() < deadline, drawn
            drawn += os.read(master, 65536)
        assert child.wait(STOP_S) == 0
    finally:
        child.kill()
        child.wait()
        os.close(master)
    assert drawn.startswith(b"created topic typed with 3 partitions\r\n")
    # Neither colours nor movements of the cursor: no bar.
    assert b"\x1b" not in drawn
