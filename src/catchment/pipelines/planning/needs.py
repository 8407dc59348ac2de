"""What a pipeline needs from outside: topics that exist, topics that it will create, variables; and notes on what it does differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catchment.client.errors import ClientError
from catchment.pipelines.checks.preflight import missing_topics
from catchment.pipelines.declaration.addresses import broker_settings, brokers, missing_variables
from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.pipelines.execution.topics import TopicAdmin, retention_notes, wanted_topics
from catchment.pipelines.graph import Graph
from catchment.pipelines.realtime.eligibility import asking_alerts, reasons_against
from catchment.pipelines.realtime.eligibility import notes as realtime_notes
from catchment.spark.launch.connector_jars import JarsUnavailable, missing_jars


@dataclass(frozen=True)
class Needs:
    """What exists and what is missing, before anything is started."""

    made: tuple[str, ...]
    """Topics that the run will create."""
    missing: tuple[str, ...]
    """What the run cannot do without, in sentences."""
    unknown: str | None = None
    """Why the topics could not be looked at."""
    notes: tuple[str, ...] = ()
    """What is, or would be, done otherwise than the file asks."""


def needs(graph: Graph, servers: str | None) -> Needs:
    """Ask the brokers and the environment."""
    specification = graph.specification
    missing = sorted({what for _, what in missing_variables(specification.model_dump())})
    notes = tuple(_realtime_notes(specification))
    wanted = wanted_topics(graph, 1)
    try:
        admin = TopicAdmin(brokers(specification, servers), broker_settings(specification))
        there = admin.names()
        notes += tuple(retention_notes(graph, admin, there))
    except ClientError as error:
        return Needs(tuple(wanted), tuple(missing), error.message, notes)
    missing += [what for _, what in missing_topics(specification, there)]
    return Needs(tuple(name for name in wanted if name not in there), tuple(missing), notes=notes)


def _realtime_notes(specification: PipelineSpecification) -> Iterator[str]:
    """What a run would say of the alerts that ask for real-time mode, as far as it is known without a run."""
    asking = asking_alerts(specification)
    reasons = {name: reasons_against(specification, name) for name in asking}
    if asking and not any(reasons.values()):
        try:
            if wanted := missing_jars():
                yield (
                    f"{', '.join(one.file_name for one in wanted)} will be fetched with Maven for real-time mode; "
                    "`catchment spark jars` does it beforehand"
                )
        except JarsUnavailable as error:
            reasons = {name: [str(error)] for name in asking}
    yield from realtime_notes(asking, reasons)
