"""Make the formats "catchment" and "catchment-table" known to a Spark session, however that session was made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.utils import is_remote

from catchment.spark.data_source import CatchmentDataSource
from catchment.spark.notices import publish
from catchment.spark.table.source import TableDataSource


def register(spark: SparkSession) -> None:
    """Register the formats; a second time changes nothing."""
    address = publish(spark)

    # A class made in a function is pickled whole, its attributes with it; one from a module would travel by its name alone.
    class Registered(CatchmentDataSource):
        notices_address = address

    for source in (Registered, TableDataSource):
        if is_remote():
            spark.dataSource.register(source)
        else:
            with _active(spark):
                spark.dataSource.register(source)
            _guard_environment(spark, source)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one: Spark looks for a format in that one, and takes what it finds there for a rival."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a started context has a JVM"
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _guard_environment(spark: SparkSession, source: type[DataSource]) -> None:
    """Give a format a process environment that many streams may write at once.

    Spark keeps one map of environment variables for a format, and every stream that starts puts its own into it. As
    Spark makes it, it is a plain HashMap: two streams that start together can leave it with a wrong size, and from then
    on no task of the session that reads or writes the format can be deserialised.
    """
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a started context has a JVM"
    sources = spark._jsparkSession.sessionState().dataSourceManager()
    function = sources.lookupDataSource(source.name()).dataSourceCls()
    guarded = jvm.org.apache.spark.api.python.SimplePythonFunction(
        function.command(),
        jvm.java.util.concurrent.ConcurrentHashMap(function.envVars()),
        function.pythonIncludes(),
        function.pythonExec(),
        function.pythonVer(),
        function.broadcastVars(),
        function.accumulator(),
    )
    made = jvm.org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource(guarded)
    sources.registerDataSource(source.name(), made)
