"""The load of many hosts; one that says nothing for eight seconds is restarted."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.pipelines import Pipeline, check, lake, store, topic

fleet = Pipeline("metrics", parallelism=2, trigger="1 second")

measurements = fleet.source(
    topic("measurements", schema="id string, host string, cpu double, memory double, at timestamp"),
    event_time="at",
    lateness="5 seconds",
    on_error="quarantine",
)
clean = fleet.stage(
    "clean",
    measurements,
    dedupe="id",
    checks=check("cpu BETWEEN 0 AND 1 AND memory BETWEEN 0 AND 1", otherwise="quarantine"),
    to=topic("measurements.clean", key="host", format="json"),
)


@fleet.stage(clean, mode="update", key=["host", "start"])
def load(clean: DataFrame) -> DataFrame:
    """The load of each host in every ten seconds."""
    means = clean.groupBy("host", F.window("at", "10 seconds").alias("w")).agg(
        F.avg("cpu").alias("cpu"), F.max("memory").alias("memory"), F.count(F.lit(1)).alias("count")
    )
    return means.select("host", "w.start", "w.end", "cpu", "memory", "count")


fleet.sink(load, store("sqlite:///fleet.db", table="load"))
fleet.sink(clean, lake("lake/measurements", partition_by="date(at)"))
fleet.alert(clean, "silent", absent_for="8 seconds", key=["host"], to=topic("restarts"))

if __name__ == "__main__":
    fleet.main()
