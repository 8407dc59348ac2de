"""The pipeline of the guide in both of its forms, for tests of everything that reads pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PYTHON: Final = """\
from catchment.pipelines import Pipeline, check, env, lake, store, topic, webhook

city = Pipeline("emergency", version=1, parallelism=4)

reports = city.source(topic("reports", format="json", schema="reports.ddl", on_error="quarantine"),
                      event_time="at", lateness="20 seconds")
crews = city.table(topic("crews", format="json", schema="crews.ddl"), key="district")

clean = city.stage("clean", reports, dedupe="id",
                   checks=[check("kind IN ('fire', 'flood', 'quake')", otherwise="quarantine"),
                           check("district IS NOT NULL", otherwise="quarantine", stop_above=0.01)],
                   to=topic("reports.clean", key="district"))

@city.stage(clean, crews, mode="update", key=["district", "start"])
def board(clean, crews):
    from pyspark.sql import functions as F

    counts = clean.groupBy("district", F.window("at", "10 seconds").alias("w")).count()
    return counts.join(crews, "district", "left").select("district", "w.start", "w.end", "count", "crew")

city.sink(board, store("sqlite:///city.db", table="board", ttl="1 year"))
city.sink(clean, lake("lake/reports", partition_by="date(at)"))
city.alert(board, "burst", when="count > 40 AND crew < 3", key=["district"], cooldown="5 minutes",
           to=[topic("dispatch"), webhook(env("HOOK"))])
"""

YAML: Final = """\
pipeline: emergency
version: 1
parallelism: 4
sources:
  reports: {topic: reports, format: json, schema: reports.ddl, on_error: quarantine, event_time: at, lateness: 20 seconds}
tables:
  crews: {topic: crews, format: json, schema: crews.ddl, key: district}
stages:
  clean:
    from: reports
    dedupe: id
    checks:
      - {expect: "kind IN ('fire', 'flood', 'quake')", otherwise: quarantine}
      - {expect: district IS NOT NULL, otherwise: quarantine, stop_above: 1%}
    to: {topic: reports.clean, key: district}
  board:
    mode: update
    key: [district, start]
    sql: |
      SELECT c.district, w.start, w.end, n AS count, crew
      FROM (SELECT district, window(at, '10 seconds') w, count(*) n FROM clean GROUP BY 1, 2) c
      LEFT JOIN crews USING (district)
sinks:
  - {from: board, store: "sqlite:///city.db", table: board, ttl: 1 year}
  - {from: clean, lake: lake/reports, partition_by: date(at)}
alerts:
  burst:
    from: board
    when: count > 40 AND crew < 3
    key: district
    cooldown: 5 minutes
    to: [{topic: dispatch}, {webhook: "${HOOK}"}]
"""


def write_emergency(folder: Path, *, suffix: str = ".yaml", text: str | None = None) -> Path:
    """The pipeline in a folder, with the files of its schemas."""
    (folder / "reports.ddl").write_text("id string, district string, kind string, at timestamp")
    (folder / "crews.ddl").write_text("district string, crew int")
    file = folder / f"city{suffix}"
    file.write_text(text or (PYTHON if suffix == ".py" else YAML))
    return file
