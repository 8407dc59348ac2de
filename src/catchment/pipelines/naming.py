"""The names of a pipeline's queries, sinks and own topics, which follow from its declarations alone.

A sink's checkpoint is found by its name. So a sink without a name is named for what it writes and where, never for its position in the
file: it would start from scratch when another sink is put above it.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from catchment.pipelines.declaration.addresses import without_credentials
from catchment.pipelines.declaration.specification import (
    LakeSink,
    PipelineSpecification,
    Stage,
    StoreSink,
    TopicOut,
    TopicSink,
)

QUARANTINE_SUFFIX: Final = ".quarantine"
REPLAYED_SUFFIX: Final = ".quarantine.replayed"
LATE_SUFFIX: Final = ".late"
_SINK_PREFIX: Final = "outlet-"
_ALERT: Final = "alert-"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST: Final = 60
"""A name has 63 characters at most, and a number may follow."""
_DIGEST: Final = 8


class MadeSourceStage(NamedTuple):
    """A source stage that the file does not declare, added for readers of a source that needs one."""

    name: str
    stage: Stage | None
    """The stage whose cleaning it does, if that asks for any."""


def is_source_stage(specification: PipelineSpecification, stage: Stage) -> bool:
    """Whether a stage only cleans what comes in."""
    return not stage.has_code and stage.from_[0] in specification.sources


def made_source_stage(
    specification: PipelineSpecification, wanted: str, reader: str | None = None
) -> MadeSourceStage | None:
    """What is made between `wanted` and the stage that reads it, or a sink if there is none; None if it is read as it is."""
    source = specification.sources.get(wanted)
    if source is None:
        return None
    stage = specification.stages[reader] if reader is not None else None
    if stage is not None and (stage.dedupe or stage.checks):
        return MadeSourceStage(f"{reader}-input", stage)
    return MadeSourceStage(f"{wanted}-input", None) if source.event_time or source.on_error != "fail" else None


def table_quarantines(specification: PipelineSpecification) -> dict[str, str]:
    """The tables whose broken records are quarantined, by the names of the queries that do it."""
    read = {one for stage in specification.stages.values() for one in stage.from_}
    return {
        f"{name}-input": name
        for name, table in specification.tables.items()
        if table.on_error == "quarantine" and name in read
    }


def has_topic(specification: PipelineSpecification, name: str) -> bool:
    """Whether a stage writes a topic; if not, each of the sinks that read it computes it."""
    stage = specification.stages[name]
    is_read = any(name in other.from_ for other in specification.stages.values())
    return is_read or stage.to is not None or is_source_stage(specification, stage)


def topic_of(specification: PipelineSpecification, query: str, to: TopicOut | None) -> str:
    """The topic that a stage writes, in its first version."""
    return to.topic if to else f"{specification.pipeline}.{query}"


def topic_in_version(topic: str, version: int) -> str:
    """A query that starts from scratch writes to a topic of its own, so that what reads it never sees rows of both."""
    return topic if version == 1 else f"{topic}.v{version}"


def named_sinks(specification: PipelineSpecification) -> Iterator[tuple[str, StoreSink | LakeSink | TopicSink]]:
    """The sinks with their names, given or by default. No other sink gets a name that was given."""
    taken = {sink.name for sink in specification.sinks} | set(map(alert_sink, specification.alerts))
    for sink in specification.sinks:
        name = sink.name or next(one for one in default_names(sink) if one not in taken)
        taken.add(name)
        yield name, sink


def alert_sink(alert: str) -> str:
    """The sink of an alert."""
    return f"{_ALERT}{alert}"


def alert_name(sink: str) -> str:
    """The alert of a sink that is one."""
    return sink.removeprefix(_ALERT)


def sink_query(sink: str) -> str:
    """The query of a sink or an alert."""
    return f"{_SINK_PREFIX}{sink}"


def without_kind(query: str) -> str:
    """A query by the name in the file, without the prefix of its kind."""
    return query.removeprefix(_SINK_PREFIX)


def default_names(sink: StoreSink | LakeSink | TopicSink) -> Iterator[str]:
    """The name of a sink, and then those that it may have if others have taken it."""
    match sink:
        case StoreSink():
            parts = (sink.from_, "store", sink.table)
        case LakeSink():
            parts = (sink.from_, "lake", without_credentials(sink.lake).rstrip("/").rpartition("/")[2])
        case TopicSink():
            parts = (sink.from_, "topic", sink.topic)
    name = "-".join(filter(None, (_NOT_IN_NAMES.sub("-", one).strip("-") for one in parts)))
    if len(name) > _LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
        name = f"{name[: _LONGEST - _DIGEST - 1]}-{digest}"
    return itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
