"""The moment at which a recomputed version of a table takes the place of the old one, whose pipeline may go on meanwhile.

The new version's query reads what the old one reads. It is caught up, and then follows until it has read all that the old one has
put into the store. The store itself prevents writes between that finding and the switch. So a reader
never sees a row disappear, or a count go back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from catchment.client.errors import ClientError
from catchment.client.offsets import EARLIEST
from catchment.pipelines.driving.supervision.run_file import is_running, read_run
from catchment.pipelines.execution.catching_up import CatchingUp, read_by, topic_offsets, topics_read
from catchment.pipelines.execution.run import Run
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.stores.store import RealTimeStore, Version, Written
from catchment.spark.checkpoint.progress import SparkCheckpoint
from catchment.spark.source.noted_offsets import read_up_to
from catchment.spark.source.positions import Offsets

_FOLLOW_S: Final = 120.0
_LOOK_S: Final = 0.05
_PAUSE_S: Final = 1.0
Report = Callable[[str], None]


@dataclass(frozen=True)
class Shown:
    """The version that the new one has to get as far as, and what readers are to see."""

    old_version: int
    version: int
    until: datetime


def reference_version(context: RunContext, query: str, live: Version, report: Report) -> int:
    """The version whose query says how far the history goes: the one that is shown, if it reads what the new one is to read.

    Where a query above started from scratch, that is the one that a run of this file writes, once it has got as far as events are. So it is
    while such a run goes on: no other query may write to its checkpoint.
    """
    version = context.version(query)
    read = {topic for topic, _ in read_by(str(context.home.checkpoint(query, live.version)))}
    topics = list(topics_read(context, query))
    if version == live.version or (read.issuperset(topics) and not _runs(context)):
        return live.version
    new = [topic for topic in topics if topic not in read] or topics
    catching_up = CatchingUp(context, query)
    deadline_s = time.monotonic() + _FOLLOW_S
    while read_by(context.checkpoint(query)) and time.monotonic() < deadline_s:
        if catching_up.is_done():
            return version
        report(f"waiting for the pipeline to catch up in {new[0]}")
        time.sleep(_PAUSE_S)
    raise ClientError(
        f"{query} starts from scratch with {new[0]}, and has not caught up",
        "Run the pipeline with this file until it has caught up, and then the backfill.",
    )


def _runs(context: RunContext) -> bool:
    """Whether the pipeline is being run with this version of its file."""
    run = read_run(context.home)
    is_this = run is not None and run.get("version") == context.graph.specification.version
    return is_this and is_running(context.home)


def switch_when_caught_up(context: RunContext, query: str, store: RealTimeStore, shown: Shown, report: Report) -> None:
    """Show the new version as soon as its speed layer is where the old one is."""
    beside = replace(context, versions={**context.versions, query: shown.version}, shows_new_versions=False)
    old = SparkCheckpoint.at(str(context.home.checkpoint(query, shown.old_version)))
    begins = topic_offsets(beside, topics_read(beside, query), EARLIEST)

    def has_switched() -> bool:
        return _has_switched(store, shown, old, begins | read_by(beside.checkpoint(query)))

    run = Run(beside)
    run.build([query])
    report("the speed layer of the new version catches up")
    run.drain()
    if has_switched():
        return
    report("the speed layer of the new version follows the running pipeline")
    following = run.start_query(query)
    deadline_s = time.monotonic() + _FOLLOW_S
    try:
        while not has_switched():
            if (error := following.exception()) is not None:
                raise error
            if time.monotonic() > deadline_s:
                raise ClientError(
                    f"the new version of {query} does not catch up with the old one, which goes on",
                    "Stop the pipeline, and run the backfill again.",
                )
            time.sleep(_LOOK_S)
    finally:
        run.stop()


def _has_switched(store: RealTimeStore, shown: Shown, old: SparkCheckpoint, reached: Offsets) -> bool:
    """Switch, if all is read that the old version has in the store, as far as the new one reads the same topics."""
    query_id = old.query_id()
    assert query_id is not None, "a query that has finished a batch has an id"
    last = store.last_batch(query_id)
    needed = {} if last is None else read_up_to(old.plan(last).ends)
    if any(reached[partition] < offset for partition, offset in needed.items() if partition in reached):
        return False
    return store.switch(shown.version, shown.until, unless_after=Written(query_id, -1 if last is None else last))
