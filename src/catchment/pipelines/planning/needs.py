"""What a pipeline needs from outside: topics that are there, topics that it will make, variables and jars."""

from __future__ import annotations

from dataclasses import dataclass

from catchment.client.errors import ClientError
from catchment.pipelines.brokers import brokers
from catchment.pipelines.execution.topics import TopicAdmin, wanted_topics
from catchment.pipelines.graph import Graph
from catchment.pipelines.realtime.eligibility import reasons_against
from catchment.pipelines.secrets import missing_variables, with_variables
from catchment.spark.connector_jars import CONNECTOR, JarsUnavailable, jars_directory


@dataclass(frozen=True)
class Needs:
    """What there is and what there is not, before anything is started."""

    made: tuple[str, ...]
    """Topics that the run will make."""
    missing: tuple[str, ...]
    """What the run cannot do without, in sentences."""
    unknown: str | None = None
    """Why the topics could not be looked at."""
    notes: tuple[str, ...] = ()
    """What is done otherwise than it was asked for."""


def needs(graph: Graph, servers: str | None) -> Needs:
    """Look at the brokers and the surroundings."""
    specification = graph.specification
    missing = sorted({what for _, what in missing_variables(specification.model_dump())})
    against = {
        name: reasons_against(specification, name)
        for name, alert in specification.alerts.items()
        if alert.trigger == "realtime"
    }
    if any(not reasons for reasons in against.values()):
        missing += [
            f"{one} is not here for real-time mode: `catchment spark jars` fetches it" for one in _missing_jars()
        ]
    notes = tuple(f"alert {name} runs in micro-batches: {one}" for name, reasons in against.items() for one in reasons)
    wanted = wanted_topics(graph, 1)
    address = brokers(specification, servers)
    try:
        there = _topics_at(address, graph)
    except KeyError as variable:
        unknown = f"the connection to the brokers needs the variable {variable}"
        return Needs(tuple(wanted), tuple(missing), unknown, notes)
    except ClientError as error:
        return Needs(tuple(wanted), tuple(missing), error.message, notes)
    read = [one.topic for one in (*graph.sources.values(), *graph.tables.values())]
    missing += [
        f"topic {name} is not there, which the pipeline reads" for name in read if name not in {*there, *wanted}
    ]
    return Needs(tuple(name for name in wanted if name not in there), tuple(missing), notes=notes)


def _missing_jars() -> list[str]:
    try:
        folder = jars_directory()
    except JarsUnavailable:
        return [one.file_name for one in CONNECTOR]
    return [one.file_name for one in CONNECTOR if not (folder / one.file_name).exists()]


def _topics_at(servers: str, graph: Graph) -> set[str]:
    settings = {name: with_variables(value) for name, value in graph.specification.kafka.items()}
    return TopicAdmin(with_variables(servers), settings).names()
