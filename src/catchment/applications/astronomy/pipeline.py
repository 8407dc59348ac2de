"""The brightness of stars; a peak far above what is usual for a star is a flash, and the telescope turns to it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.pipelines import Pipeline, check, lake, store, topic

sky = Pipeline("astronomy", parallelism=2)

observations = sky.source(
    topic(
        "observations", schema="id string, star string, ascension double, declination double, flux double, at timestamp"
    ),
    event_time="at",
    lateness="10 seconds",
    on_error="quarantine",
)
clean = sky.stage(
    "clean",
    observations,
    dedupe="id",
    checks=check("flux >= 0", otherwise="quarantine"),
    to=topic("observations.clean", key="star", format="json"),
)


@sky.stage(clean, mode="update", key=["star", "start"])
def stars(clean: DataFrame) -> DataFrame:
    """The usual brightness of each star in every ten seconds, and the highest."""
    seen = clean.groupBy("star", F.window("at", "10 seconds").alias("w")).agg(
        F.percentile_approx("flux", 0.5).alias("usual"),
        F.max("flux").alias("peak"),
        F.first("ascension").alias("ascension"),
        F.first("declination").alias("declination"),
    )
    return seen.select("star", "w.start", "w.end", "usual", "peak", "ascension", "declination")


sky.sink(stars, store("sqlite:///sky.db", table="stars"))
sky.sink(clean, lake("lake/observations", partition_by="date(at)"))
sky.alert(
    stars,
    "flash",
    when="peak > 5 * usual",
    key=["star"],
    cooldown="30 seconds",
    message="{star}: {peak:.1f} where {usual:.1f} is usual",
    to=topic("telescope"),
)

if __name__ == "__main__":
    sky.main()
