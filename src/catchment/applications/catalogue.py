"""The applications by name, and the parts that each of them brings."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol, cast

from catchment.applications.running.board_table import BoardTable
from catchment.applications.running.events import Generator

TITLES: Final[dict[str, str]] = {
    "emergency": "a city's reports: counts by district, and crews sent where a burst of them meets too few",
    "logs": "the log lines of services: a burst of critical errors disables a feature",
    "sensors": "rooms and their temperature: 30 degrees turn the air conditioning on, less turns it off",
    "market": "trades: who gains 10% in a day, and orders that are large",
    "astronomy": "the brightness of stars: a flash turns the telescope",
    "social": "posts and their tags: bursts of a tag",
    "website": "clicks as sessions: who leaves a full cart is reminded of it",
    "metrics": "many hosts: one that stops reporting is restarted",
    "accounts": "event sourcing: accounts rebuilt from their events, frozen when they are overdrawn",
    "requests": "microservices: requests in one topic, replies in another, and what runs out is ordered",
}


class Actuator(Protocol):
    """Acts on the commands of an application."""

    def act(self, command: dict[str, Any]) -> str | None:
        """What was done about a command; None if there is nothing to do."""
        ...


def pipeline_file(name: str) -> Path:
    """The pipeline of an application, to be copied to where it runs."""
    return Path(__file__).parent / name / "pipeline.py"


def simulation_of(name: str) -> ModuleType:
    """What surrounds the pipeline of an application: its events, its actuator, and what the board shows of its store."""
    return import_module(f"catchment.applications.{name}.simulation")


def generator_of(name: str) -> Generator:
    """A new generator of an application's events."""
    return cast("Generator", simulation_of(name).Events())


def actuator_of(name: str) -> Actuator:
    """A new actuator of an application."""
    return cast("Actuator", simulation_of(name).Actuator())


def board_table_of(name: str) -> BoardTable:
    """How the board shows the real-time store of an application."""
    return cast("BoardTable", simulation_of(name).TABLE)
