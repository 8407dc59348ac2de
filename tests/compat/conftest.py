"""One broker for all clients, on a real disk, and the clients that are installed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.compat.clients.client import Client
from tests.compat.clients.registry import CLIENTS, client

from catchment.testing.embedded import Broker

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session")
def broker(data_directory: Path) -> Iterator[Broker]:
    with Broker(data_directory, settings={"auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture(scope="session")
def make_topic(broker: Broker) -> Callable[..., str]:
    """Creates topics with names of their own."""

    def create(partitions: int = 1, *, settings: Mapping[str, object] | None = None) -> str:
        name = f"compat-{next(_numbers)}"
        broker.create_topic(name, partitions, settings=settings)
        return name

    return create


@pytest.fixture(params=CLIENTS)
def each_client(request: pytest.FixtureRequest, broker: Broker) -> Client:
    return client(request.param, broker.bootstrap_servers)
