"""A town on a Catchment broker, with topics, folders and a name of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.event_time.town import Town

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.client.logs import Logs


@pytest.fixture
def town(spark: SparkSession, catchment_logs: Logs, tmp_path: Path) -> Town:
    return Town(spark, catchment_logs.bootstrap_servers, tmp_path)
