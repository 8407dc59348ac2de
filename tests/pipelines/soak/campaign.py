"""A campaign of kills against the whole city: which processes are killed and when, that the run recovers, and that the result adds up."""

from __future__ import annotations

import logging
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from tests.checkers.log_checker import Anomaly
from tests.pipelines.soak.balance import anomalies_in, sums
from tests.pipelines.soak.evidence import read_back
from tests.pipelines.soak.town import Town, Victim

from catchment.pipelines.driving.supervision.run_file import is_running

_logger = logging.getLogger(__name__)

Kill = tuple[Victim, ...]
_PROGRESS_S: Final = 300.0
_CATCH_UP_S: Final = 300.0
_STOP_S: Final = 450.0
_CHECK_S: Final = 0.1
_LONGEST_LIFE_S: Final = 2.0
_LONGEST_START_S: Final = 20.0
_LONGEST_ABSENCE_S: Final = 3.0
_DROPPED: Final = "Spark dropped"
_GAVE_UP: Final = "it is not restarted"
_TRACEBACK: Final = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t]+.*\n)*.*", re.MULTILINE)
_WAITS_FOR: Final[dict[Victim, str]] = {
    "broker": "the brokers",
    "postgresql": "store postgresql://",
    "redis": "store redis://",
}


class Campaign:
    """A town whose processes are killed at random."""

    def __init__(self, town: Town, random: Random) -> None:
        self.kills: Counter[str] = Counter()
        self.sums: dict[str, int] = {}
        self.runs = 1
        self._town = town
        self._random = random
        self._troubles: dict[Anomaly, None] = {}

    def kill(self, victims: Kill, *, is_reported: bool = False, in_recovery: bool = False) -> None:
        """Kill these processes at a random time, and restart the servers among them.

        With `is_reported`, servers are restarted once the status reports that they are away. A kill in recovery does not wait until
        the town has recovered from the one before.
        """
        if not in_recovery:
            self.wait_for_growth()
        # The time of a kill is random, so there is no condition to wait for.
        time.sleep(self._random.uniform(0, _LONGEST_START_S if in_recovery else _LONGEST_LIFE_S))
        for victim in victims:
            self.wait(partial(self._town.kill, victim), f"there is no {victim} to kill")
        self.kills[" and ".join(victims)] += 1
        _logger.info("%s %s", self.kills.total(), " and ".join(victims))
        servers = [one for one in victims if self._town.is_server(one)]
        if is_reported:
            self.wait(
                lambda: all(_WAITS_FOR[one] in self._state for one in servers),
                f"the status does not report that {servers} are away",
            )
        elif servers:
            time.sleep(self._random.uniform(0, _LONGEST_ABSENCE_S))
        for server in servers:
            self._town.revive(server)

    def wait_for_growth(self) -> None:
        """Wait until every query has finished one more batch."""
        before = self._batches()

        def has_grown() -> bool:
            now = self._batches()
            return bool(now) and all(batch > before.get(name, -1) for name, batch in now.items())

        self.wait(has_grown, "not all queries go on")
        _logger.info("all queries go on")

    def finish(self) -> list[Anomaly]:
        """Stop the events, let the pipeline process the rest, and compare all evidence."""
        world = self._town.world
        self.wait_for_growth()
        assert world.generator.stop() == 0, world.generator.log_tail()
        self.wait(self._is_idle, "not all is processed")
        _logger.info("all is processed")
        deadline_s = time.monotonic() + _CATCH_UP_S
        while self._anomalies() and time.monotonic() < deadline_s:
            time.sleep(_CHECK_S)
        if (code := world.pipeline.stop(_STOP_S)) != 0:
            self._note(f"it was stopped and ended with exit code {code}")
        for traceback in _tracebacks((world.layout.folder / "pipeline.log").read_text(errors="replace")):
            self._note(f"its log has a traceback instead of a message: {traceback}")
        return [*self._troubles, *self._anomalies()]

    def wait(self, condition: Callable[[], bool], complaint: str) -> None:
        deadline_s = time.monotonic() + _PROGRESS_S
        while not condition():
            assert time.monotonic() < deadline_s, (
                f"{complaint} after {dict(self.kills)}; {self._town.run}\n{self._town.world.pipeline.log_tail()}"
            )
            self._keep_running()
            time.sleep(_CHECK_S)

    @property
    def _state(self) -> str:
        return str(self._town.run.get("state", ""))

    def _batches(self) -> dict[str, int]:
        return {one["name"]: -1 if one["batch_id"] is None else one["batch_id"] for one in self._queries}

    @property
    def _queries(self) -> list[dict[str, Any]]:
        return list(self._town.run.get("queries", ()))

    def _is_idle(self) -> bool:
        return self._state == "running" and all(one["lag"] == 0 for one in self._queries)

    def _keep_running(self) -> None:
        """Act as a user does: check the status, and restart a run that has ended. Only a kill may end a run."""
        world, run = self._town.world, self._town.run
        for child in (world.generator, world.actuator):
            assert child is not None
            assert child.exit_code in (None, 0), child.log_tail()
        for fault in run.get("faults", ()):
            # Other faults report slow batches, which kills cause on purpose.
            if _DROPPED in fault:
                self._note(fault)
        code = world.pipeline.exit_code
        if code is None or is_running(world.layout.home):
            return
        if code != -signal.SIGKILL and _GAVE_UP not in str(run.get("error")):
            self._note(f"it ended with {code}: {run.get('error')}")
        self.runs += 1
        world.pipeline.start()

    def _note(self, trouble: str) -> None:
        self._troubles[Anomaly("run in trouble", trouble)] = None

    def _anomalies(self) -> list[Anomaly]:
        world = self._town.world
        evidence = read_back(world.layout, world.broker.servers, self._town.stores)
        self.sums = sums(evidence)
        return anomalies_in(evidence)


def _tracebacks(log: str) -> list[str]:
    """Each with a few lines behind it."""
    return [log[one.start() : one.end() + 300] for one in _TRACEBACK.finditer(log)]
