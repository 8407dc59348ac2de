"""The alerts that rows of a trial would fire: the same candidates and the same cooldown, without delivery."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from catchment.client.errors import SettingsError
from catchment.pipelines.alerts.candidates import candidate_rows
from catchment.pipelines.alerts.decisions import Candidate, Memory
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.declaration.specification import Alert
from catchment.pipelines.execution.alerting import event_time_of
from catchment.pipelines.graph import Graph, Sink
from catchment.pipelines.naming import alert_name
from catchment.pipelines.trials.rows import typed_row

MESSAGE: Final = "_message"


def alert_collector(
    graph: Graph, sink: Sink, schema: StructType, fired: list[list[dict[str, Any]]]
) -> Callable[[DataFrame, int], None]:
    """What takes the batches of the rows that an alert looks at, and adds what each of them fires."""
    alert = sink.target
    assert isinstance(alert, Alert), "only alerts are asked about"
    if alert.when is None:
        raise SettingsError(f"alert {sink.name} goes by the clock", "Only alerts with `when` can be tried.")
    rule = AlertRule(
        pipeline=graph.specification.pipeline,
        name=alert_name(sink.name),
        when=alert.when,
        key=alert.key,
        event_time=event_time_of(graph, sink.reads, schema.fieldNames()),
        cooldown_ms=alert.cooldown,
        message=alert.message,
    )
    memory = Memory(alert.cooldown * 1000)

    def collect(rows: DataFrame, batch_id: int) -> None:
        found = candidate_rows(rows, rule).toArrow().to_pylist()
        # A row without a time fires no alert: alerts are identified by it.
        decided = memory.decide(Candidate(**row) for row in found if row["event_time_us"] is not None)
        alerts = [json.loads(one.value) for one in decided.fired]
        fired.append([typed_row(one["row"], schema) | {MESSAGE: one["message"]} for one in alerts])

    return collect
