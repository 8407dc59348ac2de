"""The one pipeline file that runs everywhere, and a module beside it whose function Spark's workers need."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME: Final = "everywhere"
_FILES: Final = {
    "city_everywhere.py": """\
from pyspark.sql import functions as F
from weighing import weight

from catchment.pipelines import Pipeline, check, lake, store, topic

city = Pipeline("everywhere", parallelism=2)

reports = city.source(
    topic(
        "everywhere-reports",
        schema="id string, district string, kind string, at timestamp",
        on_error="quarantine",
    ),
    name="reports",
    event_time="at",
    lateness="20 seconds",
)
crews = city.table(topic("everywhere-crews", schema="district string, crew int"), name="crews", key="district")
clean = city.stage(
    "clean",
    reports,
    dedupe="id",
    checks=[check("kind IN ('fire', 'flood', 'quake')"), check("district IS NOT NULL")],
    to=topic("everywhere.clean", key="district", format="json"),
)


@city.stage(clean, crews, mode="update", key=["district", "start"])
def board(clean, crews):
    weighed = clean.withColumn("weight", F.udf(weight, "int")("kind"))
    windows = weighed.groupBy("district", F.window("at", "10 seconds").alias("w"))
    sums = windows.agg(F.sum("weight").alias("count"))
    return sums.join(crews, "district", "left").select("district", "w.start", "w.end", "count", "crew")


city.sink(board, store("sqlite:///city.db", table="board"))
city.sink(clean, lake("lake"))
""",
    "weighing.py": """\
WEIGHTS = {"fire": 1, "flood": 2, "quake": 5}


def weight(kind):
    return WEIGHTS[kind]
""",
}
MODULES: Final = tuple(Path(name).stem for name in _FILES)


def write_pipeline(folder: Path) -> Path:
    """The files in a folder; the path of the pipeline's."""
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    return folder / next(iter(_FILES))
