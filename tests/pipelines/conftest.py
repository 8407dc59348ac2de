"""Pipelines on a real broker and a real Spark: one of each for the tests of a process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.city import City

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.client.logs import Logs


@pytest.fixture(autouse=True)
def _import_path() -> Iterator[None]:
    """The folders of a test's pipeline files leave `sys.path` with it: what they hold may have the name of any module."""
    path = list(sys.path)
    yield
    sys.path[:] = path


@pytest.fixture
def city(spark: SparkSession, catchment_logs: Logs, tmp_path: Path) -> City:
    """A city on a Catchment broker, with topics, folders and a name of its own."""
    return City(spark, catchment_logs.bootstrap_servers, tmp_path)
