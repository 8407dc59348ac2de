"""`catchment up` on a terminal: a real one, as far as the child can tell."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.cli.broker.test_broker import STOP_S

from catchment.broker.context import Services
from catchment.broker.metrics import Traffic
from catchment.cli.broker.traffic import Rates, Sample, status_line
from catchment.ports.clock import ManualClock


class Terminal:
    """A child on a pseudo terminal, and all that it has drawn."""

    def __init__(self, arguments: list[str]) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "COLUMNS": "100", "LINES": "40", "TERM": "xterm"}
        self.child = subprocess.Popen(
            [sys.executable, "-m", "catchment.cli", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
        )
        os.close(slave)
        self.drawn = ""

    def wait_for(self, text: str) -> None:
        """Read until the text appears; the end of the child before that is a failure."""
        deadline = time.monotonic() + STOP_S
        while text not in self.drawn:
            assert time.monotonic() < deadline, self.drawn
            assert self.read(), self.drawn

    def read(self) -> bool:
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.drawn += data.decode(errors="replace")
        return bool(data)

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        os.close(self._master)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    shown = Terminal(["up", "--port", "0", "--data", str(tmp_path / "data")])
    yield shown
    shown.close()


def test_the_status_is_drawn_and_an_interrupt_stops_it_cleanly(terminal: Terminal, tmp_path: Path) -> None:
    terminal.wait_for("bootstrap")
    terminal.wait_for("Ctrl-C stops it")

    terminal.child.send_signal(signal.SIGINT)
    while terminal.read():
        pass

    assert terminal.child.wait(STOP_S) == 0
    assert "127.0.0.1:" in terminal.drawn
    assert "Traceback" not in terminal.drawn
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_topics_and_records_of_the_broker_itself_are_not_counted(tmp_path: Path) -> None:
    replicas = [
        SimpleNamespace(topic=topic, log=SimpleNamespace(log_end_offset=records, size_bytes=100))
        for topic, records in (("orders", 7), ("__consumer_offsets", 1000), ("__transaction_state", 1000))
    ]
    services = SimpleNamespace(
        replicas=replicas,
        clock=ManualClock(0),
        settings=SimpleNamespace(log_dirs=[str(tmp_path)]),
        controller=SimpleNamespace(image=SimpleNamespace(topics=[replica.topic for replica in replicas])),
        traffic=Traffic(),
    )

    sample = Sample.take(cast("Services", services))

    assert (sample.records, sample.log_bytes) == (7, 300)
    assert (sample.topics, sample.partitions) == (1, 1)


def test_rates_are_differences_over_time_and_never_negative() -> None:
    earlier = Sample(10.0, 1, 1, 1000, 5000, 100, 1, 5000, 0)
    later = earlier._replace(at_s=12.0, records=3000, bytes_in=9000, bytes_out=100)

    assert Rates.between(earlier, later) == Rates(1000.0, 2000.0, 0.0)
    assert Rates.between(later, earlier._replace(at_s=14.0)).is_idle


def test_the_line_for_logs_has_every_value() -> None:
    sample = Sample(0.0, 2, 5, 0, 0, 0, 1, 3 << 20, 0)

    line = status_line(sample, Rates(1234.5, 2 << 20, 1 << 10))

    assert line == "2 topics, 5 partitions, in 1,234 records/s 2.0 MiB/s, out 1.0 KiB/s, 1 connection, disk 3.0 MiB"
