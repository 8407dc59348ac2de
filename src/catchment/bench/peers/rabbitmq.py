"""RabbitMQ as a peer: the server of the system's packages, and its own PerfTest from Maven.

A quorum queue flushes its log before it confirms, a stream does not, so each is compared under the matching policy.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from catchment.bench.peers.java import java_command
from catchment.bench.peers.maven import PeerUnavailable, classpath
from catchment.bench.peers.server import Server
from catchment.ports.network import free_port
from catchment.spark.launch.connector_jars import Artifact

_PERF_TEST = (Artifact("com.rabbitmq", "perf-test", "2.22.1"),)
# Debian puts a wrapper that changes the user on the PATH; this is the script behind it, if there is one.
_UNWRAPPED = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_TIMEOUT_SECONDS = 300
_RATE = re.compile(r"(sending|receiving) rate avg: (\d+) msg/s")
_LATENCY = re.compile(r"consumer latency min/median/75th/95th/99th \d+/(\d+)/\d+/(\d+)/(\d+) µs")


class RabbitServer(Server):
    """One RabbitMQ node with its own name, ports and cookie, on the loopback only."""

    name = "rabbitmq"

    def __init__(self, queue_option: str) -> None:
        super().__init__()
        self.queue_option = queue_option
        self._distribution_port = free_port()
        self._mapper_port = free_port()

    def command(self, directory: Path) -> Sequence[str]:
        found = str(_UNWRAPPED) if _UNWRAPPED.exists() else shutil.which("rabbitmq-server")
        if found is None:
            raise PeerUnavailable("rabbitmq-server is not installed")
        return (found,)

    def environment(self, directory: Path) -> Mapping[str, str]:
        return {
            "HOME": str(directory),
            "RABBITMQ_NODENAME": f"catchment-bench-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(directory / "data"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper_port),
        }

    def readiness(self) -> Callable[[], bool]:
        """Ready when it accepts a connection, which is a little less than a confirmed message."""

        def accepts() -> bool:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=0.05).close()
            except OSError:
                return False
            return True

        return accepts

    def stop(self) -> None:
        super().stop()
        mapper = shutil.which("epmd")
        if mapper is not None:
            # Erlang starts its port mapper as a daemon; the one on our port has to be ended here.
            subprocess.run([mapper, "-port", str(self._mapper_port), "-kill"], capture_output=True, check=False)

    def perf_test(self, *arguments: str) -> str:
        """Run PerfTest against this node and return what it printed."""
        address = ("-h", f"amqp://127.0.0.1:{self.port}", self.queue_option, "--auto-delete", "false")
        try:
            finished = subprocess.run(
                [java_command(), "-cp", classpath(_PERF_TEST), "com.rabbitmq.perf.PerfTest", *address, *arguments],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise RuntimeError(f"PerfTest took more than {_TIMEOUT_SECONDS} s") from late
        if finished.returncode != 0:
            raise RuntimeError(f"PerfTest failed: {(finished.stdout + finished.stderr)[-1000:]}")
        return finished.stdout


def average_rates(output: str) -> dict[str, float]:
    """Messages a second, `sending` and `receiving`, from PerfTest's summary."""
    return {name: float(rate) for name, rate in _RATE.findall(output)}


def latency_percentiles_ms(output: str) -> dict[str, float]:
    """The consumer's p50, p95 and p99 from PerfTest's summary."""
    found = _LATENCY.findall(output)
    if not found:
        raise RuntimeError(f"PerfTest printed no latency: {output[-500:]}")
    return dict(zip(("p50", "p95", "p99"), (int(value) / 1e3 for value in found[-1]), strict=True))
