"""Applications on a broker and a Spark, one of each for the tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def pipeline_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with the settings that pipelines run with, for as long as a test takes."""
    from catchment.pipelines.execution.session import SETTINGS

    wanted = {name: value for name, value in SETTINGS.items() if name.startswith("spark.sql.")}
    wanted["spark.sql.shuffle.partitions"] = "2"
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield spark
    for name, earlier in before.items():
        spark.conf.unset(name) if earlier is None else spark.conf.set(name, earlier)
