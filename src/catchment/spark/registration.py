"""Make the formats "catchment" and "catchment-table" known to a Spark session, however that session was made."""

from __future__ import annotations

from pyspark.sql import SparkSession

from catchment.spark.data_source import CatchmentDataSource
from catchment.spark.notices import publish
from catchment.spark.table_source import TableDataSource


def register(spark: SparkSession) -> None:
    """Register the formats; a second time changes nothing."""
    address = publish(spark)

    # A class made in a function is pickled whole, its attributes with it; one from a module would travel by its name alone.
    class Registered(CatchmentDataSource):
        notices_address = address

    spark.dataSource.register(Registered)
    spark.dataSource.register(TableDataSource)
