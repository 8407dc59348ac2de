"""The one comparison that a run begins with, and what it leaves for the next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pyspark.sql import SparkSession

from catchment.pipelines.errors import Refusal
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.planning.comparing import Decision, Plan, compare
from catchment.pipelines.planning.signature import Kept, Made
from catchment.pipelines.planning.signing import signatures

_STARTED: Final = "metadata"
"""The file that Spark writes first into a checkpoint."""


class Refused(Refusal):
    """A pipeline that may not go on with the state that it has."""

    def __init__(self, refused: dict[str, Decision]) -> None:
        said = [f"{name}: {'; '.join(one.reasons)}. {one.remedy}" for name, one in refused.items()]
        super().__init__("the state in the checkpoints is not that of this pipeline\n" + "\n".join(said))
        self.refused = refused


def decide(
    spark: SparkSession, graph: Graph, home: Home, folder: Path, begins: Mapping[str, int] | None = None
) -> Plan:
    """What each query continues: `versions` of it are those of the checkpoints. Raises `Refused`."""
    plan = examine(spark, graph, home, folder, begins)
    if plan.refused:
        raise Refused(plan.refused)
    return plan


def examine(
    spark: SparkSession, graph: Graph, home: Home, folder: Path, begins: Mapping[str, int] | None = None
) -> Plan:
    """The same, with what is refused left in the plan. `begins`: see `compare`."""
    return compare(kept_with_checkpoints(home), signatures(spark, graph, home, folder), begins)


def keep(home: Home, plan: Plan) -> None:
    """Write down what the state will be made by, in one step, before it can come to be."""
    kept = kept_with_checkpoints(home) or Kept(pipeline=home.pipeline)
    queries = dict(kept.queries)
    for name, decision in plan.queries.items():
        made = Made(
            checkpoint_version=decision.version,
            pipeline_version=plan.current.version,
            signature=plan.current.queries[name],
            upstream_versions=_upstream_versions(name, plan, kept),
        )
        others = tuple(one for one in queries.get(name, ()) if one.checkpoint_version != decision.version)
        before = [one for one in queries.get(name, ()) if one.checkpoint_version == decision.version]
        if before:
            earlier = tuple(sorted(before[-1].places - made.places))
            schemas = tuple(one for one in before[-1].rows.schemas if one != made.signature.row_schema)
            known = {"pipeline_version": before[-1].pipeline_version, "earlier_places": earlier}
            made = made.model_copy(update=known | {"earlier_schemas": schemas})
        queries[name] = tuple(sorted((*others, made), key=lambda one: one.pipeline_version))
    home.folder.mkdir(parents=True, exist_ok=True)
    temporary = home.plan_file.with_suffix(".writing")
    temporary.write_text(Kept(pipeline=home.pipeline, queries=queries).model_dump_json(indent=1), encoding="utf-8")
    temporary.replace(home.plan_file)


def _upstream_versions(name: str, plan: Plan, kept: Kept) -> dict[str, int]:
    """The checkpoints of what a query reads; those of queries that are not planned now are the ones that are there."""
    versions: dict[str, int] = {}
    for one in plan.current.queries[name].upstream:
        if one in plan.queries:
            versions[one] = plan.queries[one].version
        elif (made := kept.made(one, plan.current.version)) is not None:
            versions[one] = made.checkpoint_version
    return versions


def read_kept(home: Home) -> Kept | None:
    """What an earlier run kept; None if there was none."""
    try:
        return Kept.model_validate_json(home.plan_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValidationError as cause:
        raise Refusal(
            f"{home.plan_file} cannot be understood",
            "Another version of Catchment wrote it, or it is damaged: restore it, or begin with another --home, "
            "and with other lakes and topics, which would get every row again.",
        ) from cause


def kept_with_checkpoints(home: Home) -> Kept | None:
    """The same without what was planned but never came to have state."""
    kept = read_kept(home)
    if kept is None:
        return None
    queries = {
        name: tuple(one for one in made if _has_started(home, name, one.checkpoint_version))
        for name, made in kept.queries.items()
    }
    return Kept(pipeline=kept.pipeline, queries={name: made for name, made in queries.items() if made})


def kept_versions(home: Home, pipeline_version: int) -> dict[str, int]:
    """The version of each query's checkpoint that the last run went on with; nothing before the first."""
    kept = read_kept(home) or Kept(pipeline=home.pipeline)
    found = {name: kept.made(name, pipeline_version) for name in kept.queries}
    return {name: made.checkpoint_version for name, made in found.items() if made is not None}


def _has_started(home: Home, query: str, version: int) -> bool:
    return any((one / _STARTED).exists() for one in home.checkpoints(query, version))
