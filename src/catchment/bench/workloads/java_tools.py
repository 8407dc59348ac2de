"""The same volumes with Kafka's own ProducerPerformance and ConsumerPerformance, which are independent of us.

The consumer's tool joins a group, so a server without the group APIs has no number in that row.
"""

from __future__ import annotations

import re
import socket
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from catchment.bench.measure import Measure
from catchment.bench.peers.java import run_tool
from catchment.bench.target import Target
from catchment.bench.workloads.workload import fresh_topic

_API_VERSIONS = 18
_TIMEOUT_SECONDS = 10
_REQUEST = struct.pack(">ihhih", 10, _API_VERSIONS, 0, 1, -1)
_ROW = struct.Struct(">hhh")


def served_api_keys(host: str, port: int) -> frozenset[int]:
    """The API keys in the response to ApiVersions 0, which every server supports."""
    with (
        socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS) as connection,
        connection.makefile("rwb") as stream,
    ):
        stream.write(_REQUEST)
        stream.flush()
        size = int.from_bytes(stream.read(4), "big")
        answer = stream.read(size)
    count = int.from_bytes(answer[6:10], "big")
    return frozenset(_ROW.unpack_from(answer, 10 + index * _ROW.size)[0] for index in range(count))


_JOIN_GROUP = 11
_TIMEOUT_SECONDS = 300
_PRODUCED = re.compile(r"\d+ records sent, ([\d.]+) records/sec")


@dataclass(frozen=True, slots=True)
class JavaTools:
    """Default settings of the Java clients."""

    record_bytes: int
    records: int

    @property
    def name(self) -> str:
        return f"java-{self.record_bytes}B"

    @property
    def measures(self) -> Sequence[Measure]:
        return (
            Measure(f"produce {self.name}", f"ProducerPerformance, {self.record_bytes:,} B", "MB/s"),
            Measure(f"consume {self.name}", f"ConsumerPerformance, {self.record_bytes:,} B", "MB/s"),
        )

    def run(self, target: Target) -> dict[str, float]:
        address = ("--bootstrap-server", target.server.bootstrap_servers)
        values = {}
        with fresh_topic(target, 1) as topic:
            size = ("--num-records", str(self.records), "--record-size", str(self.record_bytes), "--throughput", "-1")
            output = _run("ProducerPerformance", "--topic", topic, *size, *address)
            values[f"produce {self.name}"] = produced_records_per_second(output) * self.record_bytes / 1e6
            if _JOIN_GROUP in served_api_keys("127.0.0.1", target.server.port):
                output = _run("ConsumerPerformance", "--topic", topic, "--num-records", str(self.records), *address)
                values[f"consume {self.name}"] = consumed_records_per_second(output) * self.record_bytes / 1e6
        return values


def _run(tool: str, *arguments: str) -> str:
    try:
        finished = run_tool(f"org.apache.kafka.tools.{tool}", arguments, _TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"{tool} took more than {_TIMEOUT_SECONDS} s") from late
    if finished.returncode != 0:
        raise RuntimeError(f"{tool} failed: {(finished.stdout + finished.stderr).decode(errors='replace')[-1000:]}")
    return finished.stdout.decode(errors="replace")


def produced_records_per_second(output: str) -> float:
    """The rate in ProducerPerformance's last line, which sums up the whole run."""
    found = _PRODUCED.findall(output)
    if not found:
        raise RuntimeError(f"ProducerPerformance printed no result: {output[-500:]}")
    return float(found[-1])


def consumed_records_per_second(output: str) -> float:
    """The rate in ConsumerPerformance's table, by the name of its column: that of the fetches, without joining the group."""
    lines = [line.split(", ") for line in output.splitlines() if ", " in line]
    if len(lines) < 2 or "fetch.nMsg.sec" not in lines[0]:
        raise RuntimeError(f"ConsumerPerformance printed no result: {output[-500:]}")
    return float(lines[-1][lines[0].index("fetch.nMsg.sec")])
