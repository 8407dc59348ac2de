"""Where the rows of a query go, told so that the same place is known again under another name."""

from __future__ import annotations

from pathlib import Path

from catchment.pipelines.declaration.specification import LakeSink, StoreSink, TopicSink
from catchment.pipelines.graph import Boundary
from catchment.pipelines.ownership.places import Place, sink_place, topic_place
from catchment.pipelines.planning.signature import Target


def boundary_target(stage: str, boundary: Boundary) -> Target:
    """The topic that a stage writes, in its first version."""
    return _target(topic_place(boundary.topic, is_boundary=True), stage)


def sink_target(sink: StoreSink | LakeSink | TopicSink, folder: Path) -> Target:
    """The table, the lake or the topic of a sink."""
    return _target(sink_place(sink, folder), sink.from_)


def _target(place: Place, stage: str) -> Target:
    return Target(name=place.name, place=place.digest, stage=stage, has_versions=place.has_versions)
