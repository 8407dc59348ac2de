"""The main job's city with its board in three stores, its closed windows in these and a lake, and everything of it that can be killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, NamedTuple

from tests.pipelines.stores.servers import PostgresServer, RedisServer
from tests.spark.soak.driver_process import Member, kill_worker, living_processes

from catchment.applications.catalogue import pipeline_file
from catchment.applications.running.world import World
from catchment.pipelines.driving.supervision.run_file import read_run
from catchment.ports.network import free_port

Victim = Literal["driver", "jvm", "worker", "supervisor", "broker", "postgresql", "redis"]
_RATE: Final = 60.0
_JVM: Final = "org.apache.spark.deploy.SparkSubmit"
_CLOSED: Final = """
SELECT district, w.start, w.end, n AS count
FROM (SELECT district, window(at, '10 seconds') w, count(*) n FROM clean GROUP BY 1, 2)
"""
_MORE: Final = """
city.sink(board, store("{postgresql}", table="board"), name="postgresql")
city.sink(board, store("{redis}", table="board"), name="redis")
sinks = {{
    "lake": lake("lake/closed"),
    "sqlite": store("sqlite:///city.db", table="closed"),
    "postgresql": store("{postgresql}", table="closed"),
    "redis": store("{redis}", table="closed"),
}}
# Each is computed by the query of its sink, which has the state: no topic lies between.
for name, sink in sinks.items():
    closed = city.stage(f"closed_{{name}}", clean, sql={closed!r}, key=["district", "start"])
    city.sink(closed, sink, name=f"closed-{{name}}")
"""


class Stores(NamedTuple):
    """Where the boards and the closed windows are."""

    lake: Path
    sqlite: Path
    postgresql: str
    redis: str


class Town:
    """The processes of the city and the servers of its stores."""

    def __init__(self, folder: Path, postgresql: PostgresServer, redis: RedisServer, random: Random) -> None:
        self.stores = Stores(
            folder / "lake" / "closed", folder / "city.db", postgresql.new_database(), redis.new_database()
        )
        more = _MORE.format(postgresql=self.stores.postgresql, redis=self.stores.redis, closed=_CLOSED)
        # Batches without a pause would leave the start of killed ones few processors.
        paced = pipeline_file("emergency").read_text().replace("parallelism=2", 'parallelism=2, trigger="1 second"')
        (folder / "pipeline.py").write_text(paced + more)
        self.world = World("emergency", folder, rate=_RATE, port=free_port(), master="local[2]")
        self._kills: dict[Victim, Callable[[], bool]] = {
            "driver": lambda: _kill_all([one for one in self._members() if one.process_id == one.session_id]),
            "jvm": lambda: _kill_all([one for one in self._members() if _JVM in one.command]),
            "worker": lambda: kill_worker(self._members(), random) is not None,
            "supervisor": self._kill_supervisor,
            "broker": lambda: _done(self.world.broker.kill),
            "postgresql": lambda: _done(postgresql.kill),
            "redis": lambda: _done(lambda: redis.stop(signal.SIGKILL)),
        }
        self._starts: dict[Victim, Callable[[], None]] = {
            "broker": self.world.broker.start,
            "postgresql": postgresql.start,
            "redis": redis.start,
        }

    @property
    def run(self) -> dict[str, Any]:
        """What the pipeline says of itself."""
        return read_run(self.world.layout.home) or {}

    def kill(self, victim: Victim) -> bool:
        """Kill -9; False if it is not there just now."""
        return self._kills[victim]()

    def is_server(self, victim: Victim) -> bool:
        """Whether it stays away until it is started again; for the others, the pipeline or its user sees to that."""
        return victim in self._starts

    def revive(self, victim: Victim) -> None:
        self._starts[victim]()

    def _members(self) -> list[Member]:
        """The driver, its JVM and Spark's Python processes. They are in the session that the driver leads."""
        living = list(living_processes())
        drivers = [one.process_id for one in living if one.parent_id == self.world.pipeline.pid]
        return [one for one in living if one.session_id in drivers]

    def _kill_supervisor(self) -> bool:
        pid = self.world.pipeline.pid
        if pid is None or not self.world.pipeline.is_alive:
            return False
        os.kill(pid, signal.SIGKILL)
        return True


@contextmanager
def town(folder: Path, random: Random) -> Iterator[Town]:
    """With its servers started and its events flowing; nothing of it is left behind."""
    with ExitStack() as stack:
        # Processes are killed here, not the machine: what the system has been given to write is written.
        postgresql = stack.enter_context(PostgresServer("-c", "fsync=off"))
        redis = stack.enter_context(RedisServer())
        made = Town(folder, postgresql, redis, random)
        stack.callback(made.world.close)
        made.world.start()
        yield made


def _kill_all(members: list[Member]) -> bool:
    for one in members:
        one.kill()
    return bool(members)


def _done(kill: Callable[[], object]) -> bool:
    kill()
    return True
