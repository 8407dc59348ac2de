"""Revisions of rows, where a stage is in mode update: each change of a row comes as one more row, which replaces the one before it.

Such rows belong where a later row of a key replaces an earlier one: in a store, in a compacted topic. Where rows are only added, each
revision would count as a row of its own. A stage that passes such rows on passes on revisions too, whatever its own mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from catchment.pipelines.declaration.specification import LakeSink, PipelineSpecification, Stage, StoreSink, TopicSink
from catchment.pipelines.errors import Path
from catchment.pipelines.naming import has_topic, is_source_stage

_WAYS_OUT: Final = "Keep it in a store or a compacted topic (`to`), by its key, or set the mode to append"
_COUNTING: Final = {
    "aggregation": "an aggregation would count every revision of a row",
    "deduplication": "a deduplication would keep the first revision of a row and drop the later ones",
    "deduplication within the watermark": "a deduplication would keep the first revision of a row and drop the later ones",
    "join of streams": "a join of streams would give a row for every revision",
    "limit": "a limit would count every revision of a row",
}
"""By the kinds of operators in a signature. Arbitrary state sees the revisions of a key in their order, and may replace one by the next."""


def revised(stages: Mapping[str, Stage]) -> dict[str, str]:
    """The stages whose rows are revisions, each with the stage in mode update that they come from."""
    found = {name: name for name, stage in stages.items() if stage.mode == "update"}
    while True:
        more = {
            name: found[one]
            for name, stage in stages.items()
            if name not in found
            for one in stage.from_
            if one in found
        }
        if not more:
            return found
        found |= more


def misplaced_revisions(specification: PipelineSpecification) -> Iterator[tuple[Path, str]]:
    """Revisions that would be kept, or sent, as if they were rows of their own."""
    found = revised(specification.stages)
    for name in found:
        stage = specification.stages[name]
        is_keyed = bool(stage.key or (stage.to and stage.to.key))
        if has_topic(specification, name) and not is_keyed and not is_source_stage(specification, stage):
            yield (
                ("stages", name, "key"),
                f"stages.{name}: {_explained(name, found)}. Without a key they lose their order in the stage's topic: "
                "give the stage the key that identifies a row",
            )
    for number, sink in enumerate(specification.sinks):
        if sink.from_ not in found:
            continue
        path: Path = ("sinks", number)
        explained = f"sinks.{number}: {_explained(sink.from_, found)}"
        kept = specification.stages[sink.from_]
        match sink:
            case LakeSink():
                yield path, f"{explained}. A lake only adds rows, and would keep every revision as a row. {_WAYS_OUT}"
            case StoreSink() if not (sink.key or kept.key):
                yield path, f"{explained}. Without a key, the store would keep every revision as a row: give it one"
            case TopicSink() if not (sink.key or kept.key or (kept.to and kept.to.key)):
                yield (
                    path,
                    f"{explained}. Without a key, no reader of the topic can tell what a record replaces: give it one",
                )


def counted(
    specification: PipelineSpecification, stage: str, operators: Callable[[], Iterable[str]]
) -> Iterator[tuple[Path, str]]:
    """Operators with state that take the revisions which a stage reads for rows of their own; asked for if it reads any."""
    found = revised(specification.stages)
    read = [one for one in specification.stages[stage].from_ if one in found]
    for kind in dict.fromkeys(operators()) if read else ():
        if kind in _COUNTING:
            yield (
                ("stages", stage),
                f"stages.{stage}: {_explained(read[0], found)}, and {_COUNTING[kind]}. "
                f"Set the mode of {found[read[0]]} to append, which gives each row once, or compute {stage} from what {read[0]} reads",
            )


def _explained(name: str, found: Mapping[str, str]) -> str:
    if found[name] == name:
        return f"stage {name} is in mode update, and gives a row again whenever it changes"
    return f"stage {name} passes on the rows of {found[name]}, which is in mode update and gives a row again whenever it changes"
