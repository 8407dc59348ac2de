"""Clicks as sessions: a visit ends after ten seconds of nothing, and a visitor who left a full cart is reminded."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.pipelines import Pipeline, check, lake, store, topic

site = Pipeline("website", parallelism=2)

clicks = site.source(
    topic("clicks", schema="id string, visitor string, page string, at timestamp"),
    event_time="at",
    lateness="5 seconds",
    on_error="quarantine",
)
clean = site.stage(
    "clean",
    clicks,
    dedupe="id",
    checks=check("page LIKE '/%'", otherwise="quarantine"),
    to=topic("clicks.clean", key="visitor", format="json"),
)


@site.stage(clean, key=["visitor", "start"], event_time="end")
def visits(clean: DataFrame) -> DataFrame:
    """Visits that are over: how many pages, whether something was in the cart, and whether it was bought."""
    sessions = clean.groupBy("visitor", F.session_window("at", "10 seconds").alias("w")).agg(
        F.count(F.lit(1)).alias("pages"),
        F.max(F.col("page") == "/cart").alias("has_cart"),
        F.max(F.col("page") == "/paid").alias("has_paid"),
    )
    return sessions.select("visitor", "w.start", "w.end", "pages", "has_cart", "has_paid")


site.sink(visits, store("sqlite:///site.db", table="visits"))
site.sink(clean, lake("lake/clicks", partition_by="date(at)"))
site.alert(
    visits,
    "abandoned",
    when="has_cart AND NOT has_paid",
    key=["visitor"],
    message="{visitor} left a full cart after {pages} pages",
    to=topic("reminders"),
)

if __name__ == "__main__":
    site.main()
