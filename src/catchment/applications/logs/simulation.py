"""The services of the example: their log lines, failures that last some seconds, and the feature flags."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Event, Generator

TABLE: Final = BoardTable(
    "critical errors by service, every 10 s",
    "service",
    "critical",
    window="start",
    beside=("lines", "errors"),
    order=("critical", "DESC"),
)
SERVICES: Final = ("search", "checkout", "login", "images", "recommendations", "mail")
_FAILING_S: Final = 5.0
_PERIOD_S: Final = 20.0


class Events(Generator):
    """In each period another service fails, with 15 critical lines a second."""

    key = "service"
    invalid = ({"level": "LOUD"},)

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._next_failure_s = 0.0

    def event(self, random: Random, now_s: float) -> Event:
        if self._began_s is None:
            self._began_s = now_s
        period, moment_s = divmod(now_s - self._began_s, _PERIOD_S)
        if moment_s < _FAILING_S and self._next_failure_s <= now_s:
            self._next_failure_s = max(self._next_failure_s, now_s - 1) + 1 / 15
            service = SERVICES[int(period) % len(SERVICES)]
            return {"service": service, "level": "CRITICAL", "message": "connection pool exhausted"}
        level = random.choices(("DEBUG", "INFO", "WARNING", "ERROR"), (30, 60, 8, 2))[0]
        return {
            "service": random.choice(SERVICES),
            "level": level,
            "message": f"took {random.expovariate(0.05):.0f} ms",
        }


class Actuator:
    """The flags of all features."""

    def __init__(self) -> None:
        self.disabled: set[str] = set()

    def act(self, command: dict[str, Any]) -> str | None:
        service = str(command["row"]["service"])
        if service in self.disabled:
            return None
        self.disabled.add(service)
        return f"feature {service} is disabled"
