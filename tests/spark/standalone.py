"""Spark's own servers on this machine, started from the wheel: a standalone cluster, and a Spark Connect server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pyspark

from catchment.ports.network import free_port
from catchment.spark.launch.java import find_java, shim_home

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For the JVM of an executor, which ends before it could become fast; its master and workers have the same from the environment."""
_START_TIMEOUT_S = 600
_STOP_TIMEOUT_S = 150
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


class SparkServer:
    """A Java process of Spark with whatever it starts, until it is stopped or killed."""

    def __init__(self, directory: Path, name: str, arguments: Sequence[str]) -> None:
        self.log = directory / f"{name}.log"
        environment = {
            **os.environ,
            "JAVA_HOME": str(shim_home(find_java())),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [_SPARK_CLASS, *arguments],
                env=environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """As a machine that loses power: the server and the executors that it started, at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait_for(self, text: str) -> None:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while text not in (written := self.log.read_text()):
            assert self._process.poll() is None, f"{self.log.name} has ended: {written[-2000:]}"
            assert time.monotonic() < deadline_s, f"{self.log.name} does not say {text!r}: {written[-2000:]}"
            time.sleep(0.05)


def start_master(directory: Path) -> tuple[SparkServer, str]:
    """A master of a standalone cluster, and the address of it."""
    port = free_port()
    arguments = [
        "org.apache.spark.deploy.master.Master",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--webui-port",
        "0",
    ]
    return SparkServer(directory, "master", arguments), f"spark://127.0.0.1:{port}"


def start_worker(directory: Path, name: str, master: str) -> SparkServer:
    """A worker with one core; it tries until the master is there."""
    options = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "600m", "--work-dir", name]
    return SparkServer(directory, name, ["org.apache.spark.deploy.worker.Worker", *options, master])


def start_connect_server(directory: Path) -> tuple[SparkServer, str]:
    """A Spark Connect server with one local core, and the address of it."""
    port = free_port()
    settings = {
        "spark.master": "local[1]",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": "1",
    }
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    program = "org.apache.spark.sql.connect.service.SparkConnectServer"
    arguments = ["org.apache.spark.deploy.SparkSubmit", "--class", program, *given, "spark-internal"]
    return SparkServer(directory, "connect", arguments), f"sc://127.0.0.1:{port}"
