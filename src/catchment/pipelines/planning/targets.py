"""Where the rows of a query go, told so that the same place is known again under another name."""

from __future__ import annotations

import hashlib
from pathlib import Path

from catchment.client.errors import SettingsError
from catchment.pipelines.addresses import without_credentials
from catchment.pipelines.graph import Boundary
from catchment.pipelines.planning.signature import Target
from catchment.pipelines.secrets import expanded
from catchment.pipelines.specification import LakeSink, StoreSink, TopicSink


def boundary_target(stage: str, boundary: Boundary) -> Target:
    """The topic that a stage writes, in its first version."""
    return Target(
        name=f"topic {boundary.topic}", place=_digest("topic", boundary.topic), stage=stage, has_versions=True
    )


def sink_target(sink: StoreSink | LakeSink | TopicSink, folder: Path) -> Target:
    """The table, the lake or the topic of a sink."""
    match sink:
        case StoreSink():
            name = f"table {sink.table} of {without_credentials(sink.store)}"
            place = _digest("store", _address(sink.store, folder), sink.table)
        case LakeSink():
            name = f"lake {without_credentials(sink.lake)}"
            place = _digest("lake", _address(sink.lake, folder))
        case TopicSink():
            name, place = f"topic {sink.topic}", _digest("topic", sink.topic)
    return Target(name=name, place=place, stage=sink.from_, has_versions=isinstance(sink, StoreSink))


def _address(address: str, folder: Path) -> str:
    """The one form of an address. Who writes there is no part of it."""
    try:
        text = without_credentials(expanded(address, folder))
    except (KeyError, SettingsError):
        # A plan may be made where its variables are not set, and says so; a run may not.
        return address
    return text.rstrip("/") if "://" in text else str(Path(text).resolve())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
