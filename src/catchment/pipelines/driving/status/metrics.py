"""The status of a run in Prometheus's text format. docs/guide/running-pipelines.md lists the names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.registry import Collector

from catchment.pipelines.driving.supervision.run_file import from_text

_MS: Final = 0.001


class QueryMetric(NamedTuple):
    """A number of each query, by its name in the status."""

    name: str
    kind: type[CounterMetricFamily | GaugeMetricFamily]
    documentation: str
    field: str
    factor: float = 1.0


QUERY_METRICS: Final = (
    QueryMetric("catchment_pipeline_rows_total", CounterMetricFamily, "Rows read.", "rows"),
    QueryMetric(
        "catchment_pipeline_rows_per_second",
        GaugeMetricFamily,
        "Rows read a second, over the last seconds.",
        "rows_per_s",
    ),
    QueryMetric(
        "catchment_pipeline_lag_records", GaugeMetricFamily, "Records in the topics that are not read yet.", "lag"
    ),
    QueryMetric(
        "catchment_pipeline_batch_seconds", GaugeMetricFamily, "The time of the last batch.", "batch_ms", factor=_MS
    ),
    QueryMetric("catchment_pipeline_batch_id", GaugeMetricFamily, "The number of the last batch.", "batch_id"),
    QueryMetric("catchment_pipeline_restarts_total", CounterMetricFamily, "How often it was restarted.", "restarts"),
    QueryMetric("catchment_pipeline_duplicate_rows_total", CounterMetricFamily, "Duplicate rows.", "duplicates"),
    QueryMetric("catchment_pipeline_late_rows_total", CounterMetricFamily, "Late records.", "late"),
    QueryMetric(
        "catchment_pipeline_rejected_rows_total", CounterMetricFamily, "Records written to the quarantine.", "rejected"
    ),
    QueryMetric(
        "catchment_pipeline_dropped_rows_total",
        CounterMetricFamily,
        "Rows that Spark dropped as late downstream of the source stage: more than none is a fault.",
        "dropped_rows",
    ),
)
STATE: Final = "catchment_pipeline_state"
DRIVER_STARTS: Final = "catchment_pipeline_driver_starts_total"
WATERMARK: Final = "catchment_pipeline_watermark_seconds"
LATENCY: Final = "catchment_pipeline_latency_seconds"
ALERTS: Final = "catchment_pipeline_alerts_total"
NOTIFICATIONS: Final = "catchment_pipeline_notifications_total"
LINEAGE_LOST: Final = "catchment_pipeline_lineage_lost_total"
NAMES: Final = (
    STATE,
    DRIVER_STARTS,
    *(one.name for one in QUERY_METRICS),
    WATERMARK,
    LATENCY,
    ALERTS,
    NOTIFICATIONS,
    LINEAGE_LOST,
)
_QUANTILES: Final = {"p50": "0.5", "p99": "0.99"}
_LABELS: Final = ("pipeline", "query")


class PipelineMetrics(Collector):
    """Reads the status at each scrape."""

    def __init__(self, read: Callable[[], dict[str, Any]]) -> None:
        self._read = read

    def render(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[MetricFamily]:
        run = self._read()
        pipeline, queries = run["pipeline"], run["queries"]
        state = GaugeMetricFamily(STATE, "1 for the state that the pipeline is in.", labels=("pipeline", "state"))
        state.add_metric((pipeline, run["state"]), 1)
        yield state
        starts = CounterMetricFamily(DRIVER_STARTS, "Drivers started in this run.", labels=("pipeline",))
        starts.add_metric((pipeline,), run.get("driver_starts", 1))
        yield starts
        for metric in QUERY_METRICS:
            family = metric.kind(metric.name, metric.documentation, labels=_LABELS)
            for query in queries:
                if query[metric.field] is not None:
                    family.add_metric((pipeline, query["name"]), query[metric.field] * metric.factor)
            yield family
        yield from _times(pipeline, queries)
        yield from _outcomes(run)


def _times(pipeline: str, queries: list[dict[str, Any]]) -> Iterator[MetricFamily]:
    watermark = GaugeMetricFamily(WATERMARK, "The watermark, in seconds since 1970.", labels=_LABELS)
    latency = GaugeMetricFamily(
        LATENCY, "From the time of an event until its row is stored.", labels=(*_LABELS, "quantile")
    )
    for query in queries:
        if query["watermark"] is not None:
            watermark.add_metric((pipeline, query["name"]), from_text(query["watermark"]).timestamp())
        for name, quantile in _QUANTILES.items() if query["latency_ms"] else ():
            latency.add_metric((pipeline, query["name"], quantile), query["latency_ms"][name] * _MS)
    yield watermark
    yield latency


def _outcomes(run: dict[str, Any]) -> Iterator[MetricFamily]:
    """Outcomes of alerts, notifications and lineage events."""
    pipeline = run["pipeline"]
    for name, documentation, label, outcomes in (
        (ALERTS, "Rows that satisfied an alert, by outcome.", "alert", run["alerts"]),
        (NOTIFICATIONS, "Alerts for a webhook or a mail address, by outcome.", "target", run["notifications"]),
    ):
        family = CounterMetricFamily(name, documentation, labels=("pipeline", label, "outcome"))
        for one, counts in outcomes.items():
            for outcome, count in counts.items():
                family.add_metric((pipeline, one, outcome), count)
        yield family
    lost = CounterMetricFamily(LINEAGE_LOST, "Events of lineage that were not delivered.", labels=("pipeline",))
    lost.add_metric((pipeline,), run["lineage_lost"])
    yield lost
