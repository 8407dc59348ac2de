"""How often each tag is used in ten seconds, every five; a burst of one is put on the front page."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.pipelines import Pipeline, check, lake, store, topic

social = Pipeline("social", parallelism=2)

posts = social.source(
    topic("posts", schema="id string, author string, tag string, text string, at timestamp"),
    event_time="at",
    lateness="10 seconds",
    on_error="quarantine",
)
clean = social.stage(
    "clean",
    posts,
    dedupe="id",
    checks=check("tag RLIKE '^#[a-z]+$'", otherwise="quarantine"),
    to=topic("posts.clean", key="tag", format="json"),
)


@social.stage(clean, mode="update", key=["tag", "start"])
def tags(clean: DataFrame) -> DataFrame:
    """Posts and authors of each tag, in windows that overlap."""
    counts = clean.groupBy("tag", F.window("at", "10 seconds", "5 seconds").alias("w")).agg(
        F.count(F.lit(1)).alias("posts"), F.approx_count_distinct("author").alias("authors")
    )
    return counts.select("tag", "w.start", "w.end", "posts", "authors")


social.sink(tags, store("sqlite:///social.db", table="tags"))
social.sink(clean, lake("lake/posts", partition_by="date(at)"))
social.alert(
    tags,
    "burst",
    # Many posts of one author are not a trend.
    when="posts > 60 AND authors > 10",
    key=["tag"],
    cooldown="1 minute",
    message="{tag}: {posts} posts of {authors} authors",
    to=topic("front-page"),
)

if __name__ == "__main__":
    social.main()
