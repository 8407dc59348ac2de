"""Whether an alert may run in real-time mode, by its declaration, before Spark starts: every reason against it, for people.

Real-time mode supports Spark's own Kafka source and sink, and operators that give a result row by row: filters,
projections, aggregations. So a real-time alert reads its source itself, with the stages between recomputed in its own query,
not the topics that micro-batches write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from catchment.pipelines.declaration.specification import PipelineSpecification, Source, Stage
from catchment.pipelines.home import Home

DECODED_BY_SPARK: Final = ("json", "csv", "text")


class StagePath(NamedTuple):
    """The stages between a source and an alert, first to last, each with its name."""

    source_name: str
    source: Source
    stages: tuple[tuple[str, Stage], ...]


def asking_alerts(specification: PipelineSpecification) -> list[str]:
    """The alerts whose author asks for real-time mode."""
    return [name for name, alert in specification.alerts.items() if alert.trigger == "realtime"]


def path_to(specification: PipelineSpecification, alert: str) -> StagePath | None:
    """The stages from a source to the alert; None where they branch."""
    name = specification.alerts[alert].from_
    stages: list[tuple[str, Stage]] = []
    while name not in specification.sources:
        stage = specification.stages.get(name)
        if stage is None or len(stage.from_) != 1:
            return None
        stages.insert(0, (name, stage))
        (name,) = stage.from_
    return StagePath(name, specification.sources[name], tuple(stages))


def reasons_against(specification: PipelineSpecification, alert: str) -> list[str]:
    """Why real-time mode does not allow this alert; nothing if the declaration shows no reason."""
    found = list(_reasons_of_alert(specification, alert))
    path = path_to(specification, alert)
    if path is None:
        return [*found, *_reasons_of_branches(specification, alert)]
    source = path.source
    if source.format not in DECODED_BY_SPARK:
        found.append(
            f"source {path.source_name} is decoded from {source.format} in Python; Spark itself decodes "
            f"{', '.join(DECODED_BY_SPARK)}"
        )
    if source.registry is not None:
        found.append(f"source {path.source_name} has its schema in a registry, whose framing is decoded in Python")
    for name, stage in path.stages:
        found += _reasons_of_stage(name, stage)
    return found


def _reasons_of_alert(specification: PipelineSpecification, alert: str) -> Iterator[str]:
    declared = specification.alerts[alert]
    if declared.absent_for is not None:
        yield "absent_for needs timers, which are a Python operator: real-time mode has none"
    if declared.cooldown:
        yield (
            "cooldown needs the memory of what has fired, which is read and written with each micro-batch; "
            "leave it out, and let the receiver recognize repeated alerts by their id"
        )


def _reasons_of_branches(specification: PipelineSpecification, alert: str) -> Iterator[str]:
    name: str = specification.alerts[alert].from_
    while (stage := specification.stages.get(name)) is not None:
        if len(stage.from_) > 1:
            tables = [one for one in stage.from_ if one in specification.tables]
            if tables:
                yield f"stage {name} joins {', '.join(tables)}: a table is read again for each micro-batch"
            if len(stage.from_) - len(tables) > 1:
                yield f"stage {name} reads several streams, and real-time mode joins none"
        name = next((one for one in stage.from_ if one not in specification.tables), "")


def _reasons_of_stage(name: str, stage: Stage) -> Iterator[str]:
    if stage.dedupe:
        yield (
            f"stage {name} removes duplicates within the lateness, an operator that real-time mode lacks; "
            "alerts on the source itself need none: the same event gives an alert with the same id"
        )
    for check in stage.checks:
        if check.otherwise == "stop" or check.stop_above is not None:
            yield f"stage {name} may stop the pipeline by `{check.expect}`, which is judged batch by batch"


NOT_ALLOWED: Final = 76
"""The exit code of the process of the real-time alerts, for its driver, when they must be decided in micro-batches."""
_FILE: Final = "realtime-refusals.json"


def write_reasons(home: Home, reasons: Mapping[str, Sequence[str]]) -> None:
    """Write the reasons of each alert for the driver."""
    home.folder.mkdir(parents=True, exist_ok=True)
    _file(home).write_text(json.dumps(reasons), encoding="utf-8")


def read_reasons(home: Home) -> dict[str, list[str]]:
    """What `write_reasons` has written."""
    reasons: dict[str, list[str]] = json.loads(_file(home).read_text(encoding="utf-8"))
    return reasons


def notes(asking: Sequence[str], reasons: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A sentence for each reason. All alerts run in real-time mode or none, so those without a reason name the others."""
    others = [name for name in asking if reasons.get(name)]
    shared = [f"it shares a session with {', '.join(others)}, and all have real-time mode or none"]
    return tuple(
        f"alert {name} is decided in micro-batches: {reason}"
        for name in (asking if others else ())
        for reason in reasons.get(name) or shared
    )


def _file(home: Home) -> Path:
    return home.folder / _FILE
