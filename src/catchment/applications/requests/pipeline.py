"""Requests for goods, replied to with a price; what is asked for more than a shelf holds is ordered."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.pipelines import Pipeline, check, lake, store, topic

shop = Pipeline("requests", parallelism=2)

asked = shop.source(
    topic("requests", schema="id string, client string, item string, quantity int, at timestamp"),
    event_time="at",
    lateness="10 seconds",
    on_error="quarantine",
)
prices = shop.table(topic("prices", schema="item string, cents long, shelf long"), key="item")
clean = shop.stage(
    "clean",
    asked,
    dedupe="id",
    checks=check("quantity > 0", otherwise="quarantine"),
    to=topic("requests.clean", key="item", format="json"),
)


@shop.stage(clean, prices, event_time="at", lateness="10 seconds", to=topic("replies", key="client", format="json"))
def replies(clean: DataFrame, prices: DataFrame) -> DataFrame:
    """One reply to each request. `request` says to which, `client` is the key by which clients find theirs."""
    total = (F.col("quantity") * F.col("cents")).alias("total_cents")
    status = F.when(F.col("cents").isNull(), "unknown item").otherwise("offered").alias("status")
    joined = clean.join(prices, "item", "left")
    return joined.select(F.col("id").alias("request"), "client", "item", "quantity", total, status, "at")


@shop.stage(clean, prices, mode="update", key=["item", "start"])
def demand(clean: DataFrame, prices: DataFrame) -> DataFrame:
    """What is asked for in every ten seconds, beside what the shelf holds."""
    asked = clean.groupBy("item", F.window("at", "10 seconds").alias("w")).agg(F.sum("quantity").alias("asked"))
    return asked.join(prices, "item").select("item", "w.start", "w.end", "asked", "shelf")


shop.sink(demand, store("sqlite:///shop.db", table="demand"))
shop.sink(clean, lake("lake/requests", partition_by="date(at)"))
message = "{item}: {asked} asked for, {shelf} there"
shop.alert(
    demand, "short", when="asked > shelf", key=["item"], cooldown="1 minute", message=message, to=topic("purchases")
)

if __name__ == "__main__":
    shop.main()
