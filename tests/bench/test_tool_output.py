"""Numbers out of what Kafka's and RabbitMQ's tools print."""

import pytest

from catchment.bench.peers.rabbitmq import average_rates, latency_percentiles_ms
from catchment.bench.workloads.java_tools import consumed_records_per_second, produced_records_per_second

PRODUCED = """256306 records sent, 51230.5 records/sec (48.86 MB/sec), 512.6 ms avg latency, 868.0 ms max latency.
500000 records sent, 70293.828202 records/sec (67.04 MB/sec), 339.05 ms avg latency, 868.00 ms max latency, 331 ms 50th.
"""
CONSUMED = """start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2025-06-01 10:00:00:000, 2025-06-01 10:00:04:500, 476.8, 105.9, 500000, 111111.1, 3500, 1000, 476.8, 500000.0
"""
CONFIRMED = """id: test-1, sending rate avg: 14941 msg/s
id: test-1, receiving rate avg: 14938 msg/s
id: test-1, consumer latency min/median/75th/95th/99th 9520/34642/40996/50999/62311 µs
id: test-1, confirm latency min/median/75th/95th/99th 8093/32467/38797/46741/53631 µs
"""


def test_the_producers_last_line_is_the_whole_run() -> None:
    assert produced_records_per_second(PRODUCED) == pytest.approx(70293.828202)


def test_the_consumers_rate_excludes_joining_its_group() -> None:
    assert consumed_records_per_second(CONSUMED) == 500000.0


def test_perf_test_rates_and_latencies_are_parsed_from_its_summary() -> None:
    assert average_rates(CONFIRMED) == {"sending": 14941.0, "receiving": 14938.0}
    assert latency_percentiles_ms(CONFIRMED) == {"p50": 34.642, "p95": 50.999, "p99": 62.311}


def test_output_without_a_result_is_an_error_and_no_zero() -> None:
    for reader in (produced_records_per_second, consumed_records_per_second, latency_percentiles_ms):
        with pytest.raises(RuntimeError, match="printed no"):
            reader("org.apache.kafka.common.errors.TimeoutException")
