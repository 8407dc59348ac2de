"""What Spark refuses of a stream, told when a pipeline is planned: Spark itself says so only when the query starts."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from catchment.client.errors import SettingsError
from catchment.pipelines.execution.spark_errors import cause_of


def require_streamable(rows: DataFrame, stage: str, mode: str) -> None:
    """SettingsError where Spark's own check refuses the streaming result of a stage in an output mode."""
    jvm = rows.sparkSession.sparkContext._jvm
    assert jvm is not None, "a started context has a JVM"
    output_mode = jvm.org.apache.spark.sql.catalyst.streaming.InternalOutputModes.apply(mode)
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), output_mode)
    except AnalysisException as error:
        raise SettingsError(
            f"Spark cannot run stage {stage} as a stream: {cause_of(error).message.rstrip('.;')}",
            f"Its mode is {mode}: change that, or what the stage does.",
        ) from error
