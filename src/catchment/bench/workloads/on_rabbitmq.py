"""Our workloads as RabbitMQ's own PerfTest can run them: plain throughput, latency and startup; the others have no counterpart."""

from __future__ import annotations

import itertools

from catchment.bench.peers.rabbitmq import RabbitServer, average_rates, latency_percentiles_ms
from catchment.bench.target import Target
from catchment.bench.workloads.requests import Latency
from catchment.bench.workloads.startup import Startup
from catchment.bench.workloads.throughput import Throughput
from catchment.bench.workloads.workload import Workload

_STREAM = "--stream-queue"
_numbers = itertools.count()
# It is some ten times slower than a log; a smaller volume takes as long and has the same rate.
_VOLUME_DIVISOR = 5


def run_on_rabbitmq(workload: Workload, target: Target, server: RabbitServer) -> dict[str, float]:
    """The numbers of a workload, or none if RabbitMQ has no counterpart."""
    match workload:
        case Startup():
            return workload.run(target)
        case Latency():
            return _latency(workload, server)
        case Throughput() if workload.is_plain:
            return _throughput(workload, server)
    return {}


def _throughput(workload: Throughput, server: RabbitServer) -> dict[str, float]:
    queue = ("--queue", f"bench-{next(_numbers)}")
    count = str(max(1_000, workload.records // _VOLUME_DIVISOR))
    size = ("--size", str(workload.record_bytes), "--confirm", "1000")
    sent = server.perf_test(*queue, *size, "--producers", "1", "--consumers", "0", "--pmessages", count)
    megabytes = workload.record_bytes / 1e6
    values = {f"produce {workload.name}": average_rates(sent)["sending"] * megabytes}
    if workload.reads_back:
        begin = ("--stream-consumer-offset", "first") if server.queue_option == _STREAM else ()
        reading = ("--producers", "0", "--consumers", "1", "--qos", "500", "--cmessages", count)
        received = server.perf_test(*queue, *begin, *reading)
        values[f"consume {workload.name}"] = average_rates(received)["receiving"] * megabytes
    if workload.watches_costs:
        values[f"memory {workload.name}"] = server.process.resident_bytes() / 1e6
    return values


def _latency(workload: Latency, server: RabbitServer) -> dict[str, float]:
    seconds = max(3, workload.records // workload.rate)
    pace = ("--rate", str(workload.rate), "--size", "100", "--confirm", "1000", "--qos", "500", "--time", str(seconds))
    return latency_percentiles_ms(server.perf_test("--queue", f"bench-{next(_numbers)}", *pace))
