"""Errors of each service in every ten seconds; a burst of critical ones disables the feature that it serves."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.pipelines import Pipeline, check, lake, store, topic

logs = Pipeline("logs", parallelism=2)

lines = logs.source(
    topic("log-lines", schema="id string, service string, level string, message string, at timestamp"),
    event_time="at",
    lateness="10 seconds",
    on_error="quarantine",
)
clean = logs.stage(
    "clean",
    lines,
    dedupe="id",
    checks=check("level IN ('DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL')", otherwise="quarantine"),
    to=topic("log-lines.clean", key="service", format="json"),
)


@logs.stage(clean, mode="update", key=["service", "start"])
def errors(clean: DataFrame) -> DataFrame:
    """How many lines, and how many of them are bad."""
    counts = clean.groupBy("service", F.window("at", "10 seconds").alias("w")).agg(
        F.count(F.lit(1)).alias("lines"),
        F.count_if(F.col("level") == "ERROR").alias("errors"),
        F.count_if(F.col("level") == "CRITICAL").alias("critical"),
    )
    return counts.select("service", "w.start", "w.end", "lines", "errors", "critical")


logs.sink(errors, store("sqlite:///logs.db", table="errors"))
logs.sink(clean, lake("lake/log-lines", partition_by="date(at)"))
logs.alert(
    errors,
    "critical",
    when="critical >= 20",
    key=["service"],
    cooldown="1 minute",
    message="{service}: {critical} critical errors",
    to=topic("features"),
)

if __name__ == "__main__":
    logs.main()
