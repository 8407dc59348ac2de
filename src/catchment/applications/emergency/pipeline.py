"""Reports of a city, counted by district as they come; where a burst of calls meets few crews, help is sent for."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.pipelines import Pipeline, check, lake, store, topic

city = Pipeline("emergency", version=1, parallelism=2)

reports = city.source(
    topic(
        "reports",
        format="json",
        schema="id string, origin string, district string, kind string, level double, at timestamp",
    ),
    event_time="at",
    lateness="20 seconds",
    on_error="quarantine",
)
crews = city.table(topic("crews", format="json", schema="district string, crew int"), key="district")

clean = city.stage(
    "clean",
    reports,
    dedupe="id",
    checks=[
        check("kind IN ('fire', 'flood', 'quake', 'crash', 'calm')", otherwise="quarantine"),
        check("district IS NOT NULL", otherwise="quarantine"),
    ],
    to=topic("reports.clean", key="district", format="json"),
)


@city.stage(clean, crews, mode="update", key=["district", "start"])
def board(clean: DataFrame, crews: DataFrame) -> DataFrame:
    """How many reports each district has in every ten seconds, how many of them are calls, and how many crews it has."""
    counts = clean.groupBy("district", F.window("at", "10 seconds").alias("w")).agg(
        F.count(F.lit(1)).alias("count"), F.count_if(F.col("origin") == "citizen").alias("calls")
    )
    return counts.join(crews, "district", "left").select("district", "w.start", "w.end", "count", "calls", "crew")


city.sink(board, store("sqlite:///city.db", table="board", ttl="1 year"))
city.sink(clean, lake("lake/reports", partition_by="date(at)"))
city.alert(
    board,
    "burst",
    when="calls > 40 AND crew < 3",
    key=["district"],
    cooldown="1 minute",
    message="{district}: {calls} calls, {crew} crews",
    to=topic("dispatch"),
)

if __name__ == "__main__":
    city.main()
