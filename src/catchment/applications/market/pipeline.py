"""Trades: what each share has gained since the day began, and orders that are large."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.pipelines import Pipeline, check, lake, store, topic

market = Pipeline("market", parallelism=2)

trades = market.source(
    topic("trades", schema="id string, symbol string, price double, quantity long, at timestamp"),
    event_time="at",
    lateness="10 seconds",
    on_error="quarantine",
)
clean = market.stage(
    "clean",
    trades,
    dedupe="id",
    checks=check("price > 0 AND quantity > 0", otherwise="quarantine"),
    to=topic("trades.clean", key="symbol", format="json"),
)


@market.stage(clean, mode="update", key=["symbol", "start"])
def days(clean: DataFrame) -> DataFrame:
    """The first and the last price of each day, and the gain between them."""
    prices = clean.groupBy("symbol", F.window("at", "1 day").alias("w")).agg(
        F.min_by("price", "at").alias("first"), F.max_by("price", "at").alias("last"), F.sum("quantity").alias("volume")
    )
    gain = (F.col("last") / F.col("first") - 1).alias("gain")
    return prices.select("symbol", "w.start", "w.end", "first", "last", gain, "volume")


market.sink(days, store("sqlite:///market.db", table="days"))
market.sink(clean, lake("lake/trades", partition_by="date(at)"))
market.alert(
    days,
    "gain",
    when="gain >= 0.10",
    key=["symbol"],
    cooldown="1 day",
    message="{symbol}: {first:.2f} to {last:.2f}",
    to=topic("desk"),
)
market.alert(
    clean,
    "large",
    when="price * quantity >= 1000000",
    key=["symbol"],
    cooldown="10 seconds",
    message="{symbol}: {quantity:,} at {price:.2f}",
    to=topic("desk"),
)

if __name__ == "__main__":
    market.main()
