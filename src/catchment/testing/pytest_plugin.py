"""Pytest fixtures that provide a real broker to any test.

Pytest loads this module in every run where Catchment is installed, so it imports nothing of Catchment until a fixture is used.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from catchment.testing.embedded import Broker
    from catchment.testing.faults import Faults

_LONGEST_TOPIC_PREFIX = 200
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def catchment_settings() -> Mapping[str, object]:
    """The settings of `catchment_broker`, with Kafka's names. Override this fixture to change them."""
    return {}


@pytest.fixture(scope="session")
def catchment_broker_factory() -> Iterator[Callable[..., Broker]]:
    """Starts brokers, with the arguments of `catchment.Broker`, and stops them when the session ends."""
    from catchment.testing.embedded import Broker

    with ExitStack() as brokers:
        yield lambda *arguments, **options: brokers.enter_context(Broker(*arguments, **options))


@pytest.fixture(scope="session")
def catchment_broker(
    catchment_broker_factory: Callable[..., Broker], catchment_settings: Mapping[str, object]
) -> Broker:
    """A running broker with its data in memory. All tests of the session share it; each uses its own topic."""
    return catchment_broker_factory(settings=catchment_settings)


@pytest.fixture
def catchment_topic_factory(catchment_broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Creates topics on `catchment_broker`, with the arguments of `create_topic` but the name, and returns their names."""

    def create(partitions: int = 1, *, settings: Mapping[str, object] | None = None) -> str:
        name = _topic_name(request.node.name)
        catchment_broker.create_topic(name, partitions, settings=settings)
        return name

    return create


@pytest.fixture
def catchment_topic(catchment_topic_factory: Callable[..., str]) -> str:
    """The name of a new topic with one partition on `catchment_broker`."""
    return catchment_topic_factory()


@pytest.fixture
def catchment_faults(catchment_broker: Broker) -> Iterator[Faults]:
    """Fault injection for `catchment_broker`. All faults end with the test."""
    yield catchment_broker.faults
    catchment_broker.faults.clear()


def _topic_name(test_name: str) -> str:
    """The test's name as far as it is valid for a topic, with a number that is unique in this session."""
    readable = re.sub(r"[^a-zA-Z0-9_-]+", "-", test_name).strip("-")
    return f"{readable[:_LONGEST_TOPIC_PREFIX]}-{next(_numbers)}"
