"""Metrics: their names, and their export in Prometheus's text format.

The broker counts with plain integers; nothing here runs on the hot path. prometheus-client takes some 50 ms to import, so it
is loaded when metrics are first rendered. Names follow those that JMX exporters give Kafka's metrics, so that people
recognise them. `python -m catchment.ports.telemetry > docs/reference/metrics.md` writes the reference page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as MetricFamily


class Metric(NamedTuple):
    """A counter only grows while the process lives; a gauge goes both ways. Counters' names end in `_total`."""

    name: str
    kind: Literal["counter", "gauge"]
    documentation: str
    labels: tuple[str, ...] = ()


class Reading(NamedTuple):
    """The value of a metric at one moment, for one set of labels in the metric's order."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


BYTES_IN: Final = Metric("kafka_server_brokertopicmetrics_bytesin_total", "counter", "Bytes of batches produced.")
BYTES_OUT: Final = Metric("kafka_server_brokertopicmetrics_bytesout_total", "counter", "Bytes of batches fetched.")
BATCHES_IN: Final = Metric("catchment_batches_in_total", "counter", "Batches produced.")
REQUESTS: Final = Metric(
    "kafka_network_requestmetrics_requests_total", "counter", "Requests received, by API.", ("request",)
)
CONNECTIONS: Final = Metric("kafka_server_socketservermetrics_connection_count", "gauge", "Connections that are open.")
UNSENT_BYTES: Final = Metric("catchment_unsent_bytes", "gauge", "Bytes of responses that clients have not read yet.")
CLIENT_RATE: Final = Metric(
    "catchment_client_quota_rate",
    "gauge",
    "What clients with a quota use, in bytes, percent or connections a second.",
    ("quota", "user", "client_id", "ip"),
)
CLIENT_PAUSES: Final = Metric(
    "catchment_client_throttle_milliseconds_total",
    "counter",
    "Throttle time that responses asked clients to wait, by quota.",
    ("quota",),
)
MUTED_CONNECTIONS: Final = Metric(
    "catchment_throttled_connections", "gauge", "Connections that are not read because of a quota."
)
PARTITIONS: Final = Metric("kafka_server_replicamanager_partitioncount", "gauge", "Partitions that this broker holds.")
LOG_SIZE: Final = Metric("kafka_log_log_size", "gauge", "Bytes of a partition's log.", ("topic", "partition"))
LOG_START: Final = Metric(
    "kafka_log_log_logstartoffset", "gauge", "The first offset of a partition's log.", ("topic", "partition")
)
LOG_END: Final = Metric(
    "kafka_log_log_logendoffset", "gauge", "The offset that a partition's next record gets.", ("topic", "partition")
)

METRICS: Final = (
    BYTES_IN,
    BYTES_OUT,
    BATCHES_IN,
    REQUESTS,
    CONNECTIONS,
    UNSENT_BYTES,
    CLIENT_RATE,
    CLIENT_PAUSES,
    MUTED_CONNECTIONS,
    PARTITIONS,
    LOG_SIZE,
    LOG_START,
    LOG_END,
)


class Exporter:
    """Renders the current readings in Prometheus's text format."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        self._read = read

    def render(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self._registry())

    def serve(self, host: str, port: int) -> MetricsServer:
        """Serve Prometheus's requests on a thread of its own. Raises OSError if the port is taken."""
        from prometheus_client import start_wsgi_server

        server, thread = start_wsgi_server(port, host, self._registry())

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return MetricsServer(host, server.server_port, close)

    def collect(self) -> Iterator[MetricFamily]:
        """The readings as prometheus-client collects them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for reading in self._read():
            metric = reading.metric
            family = families.get(metric.name)
            if family is None:
                kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                family = families[metric.name] = kind(metric.name, metric.documentation, labels=metric.labels)
            family.add_metric(reading.labels, reading.value)
        yield from families.values()

    def _registry(self) -> CollectorRegistry:
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(self)
        return registry


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """The address at which metrics are served until `close`."""

    host: str
    port: int
    close: Callable[[], None]


def render_reference() -> str:
    """The reference page of all metrics."""
    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels) or '–'} | {metric.documentation} |"
        for metric in METRICS
    ]
    return "\n".join(
        [
            "# Metrics",
            "",
            "Set `catchment.metrics.listener=127.0.0.1:9308` and point Prometheus at `http://127.0.0.1:9308/metrics`. Nothing",
            "is served by default. Where Kafka has the metric, its name follows what JMX exporters make of Kafka's. This page is",
            "rendered from the definitions: `make docs` writes it.",
            "",
            "| name | kind | labels | what it says |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(render_reference())
