"""Names and topics that two parts of a pipeline would share: one of them would be lost, or would read what the other writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from catchment.pipelines.alerts.rule import log_topic, undelivered_topic
from catchment.pipelines.declaration.specification import PipelineSpecification, TopicOut, TopicSink
from catchment.pipelines.errors import Path
from catchment.pipelines.naming import (
    LATE_SUFFIX,
    QUARANTINE_SUFFIX,
    REPLAYED_SUFFIX,
    alert_sink,
    has_topic,
    is_source_stage,
    made_source_stage,
    named_sinks,
    sink_query,
    table_quarantines,
    topic_in_version,
    topic_of,
)

Found = Iterator[tuple[Path, str]]


class _Written(NamedTuple):
    """A topic between queries, what writes it, and how it gets another name."""

    writer: str
    path: Path
    topic: str
    advice: str
    is_declared: bool


class _Made(NamedTuple):
    """A source stage that the file does not declare: what it is added for, and what it reads."""

    name: str
    path: Path
    source: str


def shared(specification: PipelineSpecification) -> Found:
    """All of them, with the keys that lead to what has to be named otherwise."""
    made = {one.name: one for one in _made_intakes(specification)}
    yield from _shared_names(specification, made)
    between = [*_of_stages(specification), *_of_intakes(specification, made.values())]
    yield from _shared_boundaries(specification, between)
    yield from _shared_outlets(specification, between)


def _made_intakes(specification: PipelineSpecification) -> Iterator[_Made]:
    readers: list[tuple[Path, str, str | None]] = [
        (("stages", name), wanted, name)
        for name, stage in specification.stages.items()
        if not is_source_stage(specification, stage)
        for wanted in stage.from_
    ]
    readers += [(("sinks", number), sink.from_, None) for number, sink in enumerate(specification.sinks)]
    readers += [(("alerts", name), alert.from_, None) for name, alert in specification.alerts.items()]
    for path, wanted, stage in readers:
        if (made := made_source_stage(specification, wanted, stage)) is not None:
            yield _Made(made.name, path, wanted)


def _shared_names(specification: PipelineSpecification, made: Mapping[str, _Made]) -> Found:
    source_stages = {name: one.source for name, one in made.items()} | table_quarantines(specification)
    sinks = {sink_query(name): f"sink {name}" for name, _ in named_sinks(specification)}
    alerts = {alert_sink(name): name for name in specification.alerts}
    sinks |= {sink_query(sink): f"alert {name}" for sink, name in alerts.items()}
    for kind in ("sources", "tables", "stages"):
        for name in getattr(specification, kind):
            if name in source_stages:
                yield (kind, name), f"the name {name} is taken: the source stage of {source_stages[name]} has it"
            elif kind == "stages" and name in sinks:
                yield (kind, name), f"the name {name} is taken: the query of {sinks[name]} has it"
    for name, stage in specification.stages.items():
        alike = Counter(one.lower() for one in set(stage.from_) if stage.sql is not None)
        for one in (one for one, count in alike.items() if count > 1):
            yield ("stages", name, "from"), f"stage {name} reads several as {one}: SQL ignores case"
    for number, sink in enumerate(specification.sinks):
        if sink.name in alerts:
            yield (
                ("sinks", number, "name"),
                f"the name {sink.name} is taken: that of alert {alerts[sink.name]} is the same",
            )


def _of_stages(specification: PipelineSpecification) -> Iterator[_Written]:
    for name, stage in specification.stages.items():
        if has_topic(specification, name):
            path: Path = ("stages", name, "to") if stage.to else ("stages", name)
            topic = topic_of(specification, name, stage.to)
            yield _Written(f"stage {name}", path, topic, "Name another with `to`.", is_declared=True)


def _of_intakes(specification: PipelineSpecification, made: Iterable[_Made]) -> Iterator[_Written]:
    for one in made:
        advice = f"Read {one.source} by way of a stage without code that names another with `to`."
        topic = topic_of(specification, one.name, None)
        yield _Written(f"the source stage of {one.source}", one.path, topic, advice, is_declared=False)


def _shared_boundaries(specification: PipelineSpecification, between: list[_Written]) -> Found:
    taken = _kept_by_the_pipeline(specification.pipeline) | _read_topics(specification)
    for one in between:
        # Where a stage and an added source stage write the same topic, the mistake belongs to the stage, which has a line.
        others = {other.topic: f"{other.writer} writes it" for other in between if other is not one and one.is_declared}
        for topic, why in (others | taken).items():
            if _meets(one.topic, topic, specification.version):
                yield one.path, f"{one.writer} may not write topic {topic}: {why}. {one.advice}"


def _shared_outlets(specification: PipelineSpecification, between: list[_Written]) -> Found:
    kept = _kept_by_the_pipeline(specification.pipeline)
    read = _read_topics(specification)
    written: list[tuple[Path, str, Mapping[str, str]]] = [
        (("sinks", number, "topic"), sink.topic, kept | read)
        for number, sink in enumerate(specification.sinks)
        if isinstance(sink, TopicSink)
    ]
    # What an alert says may be read again by its own pipeline, as events or as a table.
    written += [
        (("alerts", name, "to", number), target.topic, kept)
        for name, alert in specification.alerts.items()
        for number, target in enumerate(alert.to)
        if isinstance(target, TopicOut)
    ]
    for path, topic, taken in written:
        stages = [one.writer for one in between if _meets(one.topic, topic, specification.version)]
        if why := taken.get(topic) or (f"{stages[0]} writes it" if stages else None):
            yield path, f"{'.'.join(map(str, path))}: {topic} is no topic to write to: {why}. Name another."


def _kept_by_the_pipeline(pipeline: str) -> dict[str, str]:
    """The topics that every pipeline has for itself, whether it needs them by now or not."""
    return {
        f"{pipeline}{QUARANTINE_SUFFIX}": "records that cannot be used are there",
        f"{pipeline}{REPLAYED_SUFFIX}": "what was sent back from the quarantine is noted there",
        f"{pipeline}{LATE_SUFFIX}": "records that came too late are there",
        log_topic(pipeline): "it is the log of the alerts",
        undelivered_topic(pipeline): "alerts that could not be delivered are there",
    }


def _read_topics(specification: PipelineSpecification) -> dict[str, str]:
    tables = {table.topic: f"table {name} reads it" for name, table in specification.tables.items()}
    return tables | {source.topic: f"source {name} reads it" for name, source in specification.sources.items()}


def _meets(written: str, other: str, version: int) -> bool:
    """Whether a query that writes one topic writes the other, now or in a version that the pipeline has had."""
    number = other.removeprefix(f"{written}.v")
    is_version = number.isdecimal() and int(number) <= version and other == topic_in_version(written, int(number))
    return other == written or is_version
