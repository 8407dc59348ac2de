"""A registry for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.spark.formats.registry_server import RegistryServer


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    server = RegistryServer()
    yield server
    server.close()
