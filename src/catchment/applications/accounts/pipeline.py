"""Accounts rebuilt from their events. One that is overdrawn is frozen; the events in the for-ever store are the truth."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.pipelines import Pipeline, check, lake, store, topic

bank = Pipeline("accounts", parallelism=2)

events = bank.source(
    topic("account-events", schema="id string, account string, kind string, cents long, at timestamp"),
    event_time="at",
    lateness="10 seconds",
    on_error="quarantine",
)
clean = bank.stage(
    "clean",
    events,
    dedupe="id",
    checks=[
        check("kind IN ('opened', 'deposited', 'withdrawn')", otherwise="quarantine"),
        check("cents >= 0", otherwise="quarantine"),
    ],
    to=topic("account-events.clean", key="account", format="json"),
)


@bank.stage(clean, mode="update", key=["account"], event_time="changed")
def accounts(clean: DataFrame) -> DataFrame:
    """How each account stands after all that has happened to it, in whichever order its events arrive."""
    sign = F.when(F.col("kind") == "withdrawn", -1).otherwise(1)
    return clean.groupBy("account").agg(
        F.sum(sign * F.col("cents")).alias("cents"), F.count(F.lit(1)).alias("events"), F.max("at").alias("changed")
    )


bank.sink(accounts, store("sqlite:///bank.db", table="accounts"))
bank.sink(clean, lake("lake/account-events", partition_by="date(at)"))
bank.alert(
    accounts,
    "overdrawn",
    when="cents < 0",
    key=["account"],
    cooldown="1 minute",
    message="{account}: {cents} cents",
    to=topic("freezes"),
)

if __name__ == "__main__":
    bank.main()
