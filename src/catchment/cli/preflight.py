"""What `plan` and `run` look at before Spark starts: whether the brokers answer, and whether the topics are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.cli.failure import AWAY, CommandError
from catchment.cli.output import print_note

if TYPE_CHECKING:
    from catchment.pipelines.loading import Loaded
    from catchment.pipelines.specification import PipelineSpecification


def find_topics(specification: PipelineSpecification, servers: str | None) -> frozenset[str]:
    """The topics that there are; ends the command where no broker answers."""
    from catchment.pipelines.brokers import broker_settings, brokers
    from catchment.pipelines.preflight import BrokersAway, topics_there

    try:
        return topics_there(brokers(specification, servers), broker_settings(specification), on_wait=print_note)
    except BrokersAway as away:
        raise CommandError(away.message, away.advice, exit_code=AWAY) from away


def require_topics(loaded: Loaded, there: frozenset[str]) -> None:
    """Raise `Mistakes` with every topic that the pipeline reads and that is not there."""
    from catchment.pipelines.mistakes import Mistake, Mistakes
    from catchment.pipelines.preflight import missing_topics

    missing = [Mistake(loaded.declared.place(path), what) for path, what in missing_topics(loaded.specification, there)]
    if missing:
        raise Mistakes(missing)
