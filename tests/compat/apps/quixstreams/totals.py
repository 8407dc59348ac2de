"""Quix Streams, exactly once: a running total for each key, and a count for each key and ten seconds of event time.

    python totals.py BOOTSTRAP-SERVERS STATE-DIRECTORY

Its interpreter has the packages of `requirements.txt`, not those of the project.
"""

import sys
from typing import Any

from quixstreams import Application, State


def add(reading: dict[str, Any], state: State) -> dict[str, Any]:
    count, total = state.get("count", 0) + 1, state.get("total", 0) + reading["value"]
    state.set("count", count)
    state.set("total", total)
    return {"number": reading["number"], "count": count, "total": total}


def main(bootstrap_servers: str, state_directory: str) -> None:
    application = Application(
        broker_address=bootstrap_servers,
        consumer_group="totals",
        processing_guarantee="exactly-once",
        auto_offset_reset="earliest",
        state_dir=state_directory,
        commit_interval=0.2,
        # A process that was killed is missed sooner than by default.
        consumer_extra_config={"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000},
        producer_extra_config={"transaction.timeout.ms": 10000},
    )
    readings = application.dataframe(application.topic("readings"))
    readings.apply(add, stateful=True).to_topic(application.topic("totals"))
    windows = readings.tumbling_window(duration_ms=10_000, grace_ms=3_600_000).count().current()
    windows.to_topic(application.topic("windows"))
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
