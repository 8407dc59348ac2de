"""Brokers that tests script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.played_brokers import PlayedBroker, PlayedCluster


@pytest.fixture
def played() -> Iterator[PlayedCluster]:
    cluster = PlayedCluster(PlayedBroker(10), PlayedBroker(10))
    yield cluster
    for broker in cluster.brokers:
        broker.shut()
