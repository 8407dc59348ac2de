"""The channel from the driver's listener to the readers of streams."""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.spark.notices import Notice, Publisher, publish, subscribe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 150.0
FIRST = Notice("query", "orders", "run", 0, ('{"orders":{"0":1}}', "null"))
SECOND = FIRST._replace(batch_id=1)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    made = Publisher()
    yield made
    made.close()


def heard_from(address: str) -> queue.Queue[Notice]:
    heard: queue.Queue[Notice] = queue.Queue()
    assert subscribe(address, heard.put).connected
    return heard


def test_every_subscriber_hears_every_notice(publisher: Publisher) -> None:
    publisher.send(FIRST)
    subscribers = [heard_from(publisher.address) for _ in range(3)]
    # The first notice shows that all are connected before the second is sent.
    assert [heard.get(timeout=TIMEOUT_S) for heard in subscribers] == [FIRST] * 3
    publisher.send(SECOND)
    assert [heard.get(timeout=TIMEOUT_S) for heard in subscribers] == [SECOND] * 3


def test_who_comes_late_hears_the_last_notice_of_running_queries_alone(publisher: Publisher) -> None:
    publisher.send(FIRST)
    publisher.send(FIRST._replace(run_id="ended"))
    publisher.send(SECOND)
    publisher.forget("ended")
    heard = heard_from(publisher.address)
    assert heard.get(timeout=TIMEOUT_S) == SECOND
    publisher.send(FIRST)
    assert heard.get(timeout=TIMEOUT_S) == FIRST


def test_a_subscriber_that_reads_nothing_is_cut_off_and_the_others_still_hear(publisher: Publisher) -> None:
    publisher.send(FIRST)
    heard = heard_from(publisher.address)
    assert heard.get(timeout=TIMEOUT_S) == FIRST
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stuck:
        stuck.connect(publisher.address)
        large = FIRST._replace(ends=("x" * 10_000_000,))
        publisher.send(large)
        publisher.send(SECOND)
    assert heard.get(timeout=TIMEOUT_S) == large
    assert heard.get(timeout=TIMEOUT_S) == SECOND


def test_a_closed_subscription_hears_nothing_more(publisher: Publisher) -> None:
    heard: queue.Queue[Notice] = queue.Queue()
    subscription = subscribe(publisher.address, heard.put)
    publisher.send(FIRST)
    assert heard.get(timeout=TIMEOUT_S) == FIRST
    subscription.close()
    witness = heard_from(publisher.address)
    publisher.send(SECOND)
    assert witness.get(timeout=TIMEOUT_S) in (FIRST, SECOND)
    assert heard.empty()
    assert not subscription.connected


def test_a_subscription_that_outlives_the_driver_is_closed_in_peace() -> None:
    publisher = Publisher()
    publisher.send(FIRST)
    heard: queue.Queue[Notice] = queue.Queue()
    before = set(threading.enumerate())
    subscription = subscribe(publisher.address, heard.put)
    (receiving,) = set(threading.enumerate()) - before
    assert heard.get(timeout=TIMEOUT_S) == FIRST
    publisher.close()
    receiving.join(TIMEOUT_S)
    assert not receiving.is_alive()
    subscription.close()
    assert not subscription.connected


def test_the_end_of_a_fork_leaves_the_channel_of_its_parent_alone(publisher: Publisher) -> None:
    ended = multiprocessing.get_context("fork").Process(target=publisher.close)
    ended.start()
    ended.join(TIMEOUT_S)
    assert ended.exitcode == 0
    publisher.send(FIRST)
    assert heard_from(publisher.address).get(timeout=TIMEOUT_S) == FIRST


def test_an_address_without_a_server_gives_a_silent_subscription(tmp_path: Path) -> None:
    assert not subscribe(str(tmp_path / "missing"), lambda notice: None).connected
    assert not subscribe(None, lambda notice: None).connected


def test_only_the_owner_can_reach_the_socket_and_closing_removes_it() -> None:
    publisher = Publisher()
    directory = Path(publisher.address).parent
    assert directory.stat().st_mode & 0o077 == 0
    publisher.close()
    assert not directory.exists()


def test_a_long_temporary_directory_does_not_overflow_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("d" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    publisher = Publisher()
    assert len(publisher.address) < 104
    publisher.close()
    assert os.listdir(long) == []


def test_a_batch_is_noticed_without_a_next_one(spark: SparkSession, tmp_path: Path) -> None:
    heard: queue.Queue[Notice] = queue.Queue()
    subscription = subscribe(publish(spark), heard.put)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.txt").write_text("a\nb\n")
    lines = spark.readStream.text(str(tmp_path / "in")).writeStream.format("noop").queryName("noticed")
    query = lines.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        notice = heard.get(timeout=TIMEOUT_S)
        while notice.query_name != "noticed":
            notice = heard.get(timeout=TIMEOUT_S)
        progress = query.lastProgress
        assert progress is not None
        assert notice[:4] == (str(query.id), "noticed", str(query.runId), 0)
        assert [json.loads(end) for end in notice.ends] == [json.loads(progress.sources[0].endOffset)]
    finally:
        query.stop()
        subscription.close()


def test_a_session_is_listened_to_once(spark: SparkSession) -> None:
    assert publish(spark) == publish(spark)


def test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next_one(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    program = (
        "import os, signal, socket\n"
        "from catchment.spark.notices import SocketFolder\n"
        "made = SocketFolder()\n"
        "socket.socket(socket.AF_UNIX).bind(made.address)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(folder)})
    assert killed.returncode == -signal.SIGKILL
    [left] = folder.iterdir()

    one, other = Publisher(), Publisher()

    assert not left.exists()
    assert {Path(one.address).parent, Path(other.address).parent} == set(folder.iterdir()), "those in use stay"
    one.close()
    other.close()
    assert not list(folder.iterdir())
