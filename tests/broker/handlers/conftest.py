"""A broker in memory and a connection to it, for each test of a handler."""

from collections.abc import Iterator

import pytest
from tests.broker.handlers.wire import Wire

from catchment.testing.embedded import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as connected:
        yield connected
