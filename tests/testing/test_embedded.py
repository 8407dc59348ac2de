"""The embedded broker: quick, clean, several at once, and as durable as requested."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient
from tests.testing.clients import read_all, write

import catchment
from catchment.protocol.errors import ApiError
from catchment.settings.setting import UnknownSetting

VALUES = [b"one", b"two", b"three"]


def broker_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "catchment-broker"]


def run_python(script: str) -> str:
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_a_client_writes_to_it_and_reads_back() -> None:
    with catchment.Broker() as broker:
        broker.create_topic("topic")
        assert write(broker.bootstrap_servers, "topic", VALUES) == []
        assert read_all(broker.bootstrap_servers, "topic") == VALUES


def test_it_starts_in_well_under_a_fifth_of_a_second() -> None:
    times_s = []
    for _ in range(5):
        # Processor time, because the elapsed time depends on the load of the machine.
        start_s = time.process_time()
        with catchment.Broker():
            times_s.append(time.process_time() - start_s)
    assert min(times_s) < 0.15


def test_importing_the_package_loads_neither_a_broker_nor_an_event_loop() -> None:
    loaded = "import sys, catchment; print(sorted({'kio.schema', 'uvloop', 'asyncio', 'crc32c'} & set(sys.modules)))"
    assert run_python(loaded) == "[]"


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    name = "Borker"
    with pytest.raises(AttributeError, match=name):
        getattr(catchment, name)


def test_several_run_at_once_independently() -> None:
    with catchment.Broker() as first, catchment.Broker() as second:
        assert first.bootstrap_servers != second.bootstrap_servers
        for broker, values in ((first, [b"first"]), (second, [b"second"])):
            broker.create_topic("topic")
            assert write(broker.bootstrap_servers, "topic", values) == []
        assert read_all(first.bootstrap_servers, "topic") == [b"first"]
        assert read_all(second.bootstrap_servers, "topic") == [b"second"]


def test_it_stops_when_its_block_ends_even_by_an_error() -> None:
    before = broker_threads()
    addresses: list[str] = []

    def fail_in_the_block() -> None:
        with catchment.Broker() as broker:
            addresses.append(broker.bootstrap_servers)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_block()
    assert broker_threads() == before
    host, port = addresses[0].split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_a_failed_start_raises_and_leaves_nothing_behind() -> None:
    before = broker_threads()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = catchment.Broker(settings={"listeners": f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"})
        with pytest.raises(OSError, match="in use"):
            broker.start()
    assert not broker.is_running
    assert broker_threads() == before


def test_an_unknown_setting_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(UnknownSetting, match=r"log\.retention\.ms"):
        catchment.Broker(settings={"log.retention.mss": 1})


def test_settings_reach_the_broker() -> None:
    with catchment.Broker(settings={"message.max.bytes": 2000}) as broker:
        broker.create_topic("topic")
        (error,) = write(broker.bootstrap_servers, "topic", [b"x" * 5000])
        assert error.name() == "MSG_SIZE_TOO_LARGE"


def test_a_stopped_broker_says_that_it_is_not_running() -> None:
    broker = catchment.Broker()
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.bootstrap_servers
    with pytest.raises(RuntimeError, match="not running"):
        broker.create_topic("topic")
    broker.stop()
    assert repr(broker) == "<catchment.Broker stopped>"


def test_a_running_broker_is_not_started_twice() -> None:
    with catchment.Broker() as broker, pytest.raises(RuntimeError, match="running already"):
        broker.start()


def test_errors_of_the_broker_are_raised_to_the_caller() -> None:
    with catchment.Broker() as broker:
        broker.create_topic("topic")
        with pytest.raises(ApiError, match="exists"):
            broker.create_topic("topic")


def test_a_restart_keeps_data_and_address() -> None:
    with catchment.Broker() as broker:
        address = broker.bootstrap_servers
        broker.create_topic("topic")
        assert write(address, "topic", VALUES) == []
        broker.restart()
        assert broker.bootstrap_servers == address
        assert read_all(address, "topic") == VALUES


def test_a_killed_broker_recovers_what_it_acknowledged() -> None:
    with catchment.Broker() as broker:
        broker.create_topic("topic")
        assert write(broker.bootstrap_servers, "topic", VALUES) == []
        broker.kill()
        assert not broker.is_running
        broker.start()
        assert read_all(broker.bootstrap_servers, "topic") == VALUES


def test_a_broker_is_stopped_and_killed_again_and_again_while_a_client_is_connected() -> None:
    with catchment.Broker() as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for _ in range(5):
            assert client.list_topics(timeout=30).brokers
            broker.restart()
            broker.kill()
            broker.start()


def test_a_power_loss_loses_nothing_that_was_acknowledged() -> None:
    with catchment.Broker() as broker:
        broker.create_topic("topic")
        for seed in range(10):
            assert write(broker.bootstrap_servers, "topic", [b"%d" % seed]) == []
            broker.kill(power_loss=Random(seed))
            broker.start()
        assert read_all(broker.bootstrap_servers, "topic") == [b"%d" % seed for seed in range(10)]


def test_a_directory_keeps_the_data_for_the_next_broker(tmp_path: Path) -> None:
    with catchment.Broker(tmp_path) as broker:
        broker.create_topic("topic")
        assert write(broker.bootstrap_servers, "topic", VALUES) == []
        broker.kill()
        broker.start()
        assert read_all(broker.bootstrap_servers, "topic") == VALUES
    with catchment.Broker(tmp_path) as broker:
        assert read_all(broker.bootstrap_servers, "topic") == VALUES


def test_a_directory_serves_one_broker_at_a_time(tmp_path: Path) -> None:
    with catchment.Broker(tmp_path), pytest.raises(OSError, match="in use"):
        catchment.Broker(tmp_path).start()


def test_a_broker_in_a_directory_cannot_lose_power(tmp_path: Path) -> None:
    with catchment.Broker(tmp_path) as broker:
        with pytest.raises(ValueError, match="in memory"):
            broker.kill(power_loss=Random(1))
        assert broker.is_running


def test_a_forgotten_broker_does_not_keep_the_interpreter_from_exiting() -> None:
    script = "import catchment; broker = catchment.Broker(); broker.start(); print(broker.bootstrap_servers)"
    assert run_python(script).startswith("127.0.0.1:")
