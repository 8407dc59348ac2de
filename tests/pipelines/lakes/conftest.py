"""Lakes of both formats, and one Spark session for all tests of a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.pipelines.lakes import Lake, open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["delta", "parquet"])
def make_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Lake]:
    """Open the test's lake, as a driver does that has just been started."""
    return lambda: open_lake(str(tmp_path / "lake"), format=request.param, partition_by="district")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from catchment.spark import session
    from catchment.spark.start_up_cache import SWITCH

    # Tests leave no training run behind.
    os.environ[SWITCH] = "off"
    config = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    with session("local[2]", app_name="lakes", config=config) as running:
        yield running
