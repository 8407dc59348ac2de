"""The command line beside other programs: closed pipes, interrupts, lost brokers, unexpected failures."""

import signal
import subprocess
from pathlib import Path

from tests.cli.broker.test_broker import STOP_S
from tests.cli.conftest import Run, Start

from catchment import Broker


def test_a_closed_pipe_is_not_an_error(start: Start, run: Run, topic: str, bootstrap_servers: str) -> None:
    run("produce", topic, stdin=b"some longer line of text\n" * 20_000)
    consumer = start("consume", topic, "-b", bootstrap_servers)
    assert consumer.stdout is not None
    assert consumer.stdout.readline() == b"some longer line of text\n"

    consumer.stdout.close()

    assert consumer.wait(STOP_S) == 1
    assert consumer.stderr is not None
    assert consumer.stderr.read() == b""


def test_an_interrupt_ends_consuming_without_an_error(
    start: Start, run: Run, topic: str, bootstrap_servers: str
) -> None:
    run("produce", topic, stdin=b"first\n")
    consumer = start("consume", topic, "-b", bootstrap_servers)
    assert consumer.stdout is not None
    assert consumer.stdout.readline() == b"first\n"

    consumer.send_signal(signal.SIGINT)
    _, errors = consumer.communicate(timeout=STOP_S)

    assert consumer.returncode == 0
    assert errors == b""


def test_what_was_typed_before_an_interrupt_is_sent(start: Start, run: Run, topic: str, bootstrap_servers: str) -> None:
    producer = start("produce", topic, "-p", "0", "-b", bootstrap_servers)
    assert producer.stdin is not None
    producer.stdin.write(b"typed\n")
    producer.stdin.flush()
    assert run("consume", topic, "-p", 0, "-n", 1).stdout == "typed\n"

    producer.send_signal(signal.SIGINT)
    _, errors = producer.communicate(timeout=STOP_S)

    assert producer.returncode == 130
    assert b"sent 1 record" in errors


def test_a_broker_that_goes_away_ends_consuming_with_its_address(start: Start) -> None:
    with Broker() as broker:
        broker.create_topic("lost")
        address = broker.bootstrap_servers
        sender = start("produce", "lost", "-b", address)
        sender.communicate(b"last words\n", timeout=STOP_S)
        consumer: subprocess.Popen[bytes] = start("consume", "lost", "-b", address, "--timeout", 1)
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == b"last words\n"

    _, errors = consumer.communicate(timeout=STOP_S)

    assert consumer.returncode == 1
    assert f"cannot reach {address}" in errors.decode()


def test_an_unexpected_failure_is_one_message_and_a_traceback_on_demand(start: Start, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import catchment.cli.app as app\napp.version = lambda name: 1 / 0\n")

    short = start("--version", PYTHONPATH=str(tmp_path))
    _, errors = short.communicate(timeout=STOP_S)
    assert short.returncode == 1
    assert b"Traceback" not in errors
    assert b"unexpected ZeroDivisionError" in errors

    long = start("--version", PYTHONPATH=str(tmp_path), CATCHMENT_TRACEBACK="1")
    _, errors = long.communicate(timeout=STOP_S)
    assert b"Traceback" in errors
