"""The same questions to a pipeline, as a stage of Python or SQL, and to DuckDB, which has all events before it at once.

DuckDB finds the events that count in `calls` and `visits`, each with the number of the drain that processed it, and the crews as
they were at each drain in `crews`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Question:
    """One stage, kept in a table of the same name."""

    name: str
    reads: tuple[str, ...]
    stage: Callable[..., DataFrame] | str
    """A function, or SQL."""
    oracle: str
    key: tuple[str, ...] = ()
    """Set in mode update: what a later row replaces an earlier one by."""
    event_time: str | None = None
    """Set where another stage reads this one."""


def _board(calls: DataFrame, crews: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    counts = calls.groupBy("district", F.window("moment", "10 seconds").alias("w")).count()
    return counts.join(crews, "district", "left").select("district", "w.start", "w.end", "count", "crew")


def _minutes(tumbling: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    sums = tumbling.groupBy("district", F.window("start", "1 minute").alias("w")).agg(F.sum("count").alias("count"))
    return sums.select("district", "w.start", "count")


def _trend(calls: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    counts = calls.groupBy("district", F.window("moment", "20 seconds", "5 seconds").alias("w")).count()
    return counts.select("district", "w.start", "count")


def _sessions(calls: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    counts = calls.groupBy("district", F.session_window("moment", "6 seconds").alias("w")).count()
    return counts.select("district", "w.start", "w.end", "count")


def _pairs(calls: DataFrame, visits: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    near = F.expr(
        "c.district = v.district AND v.moment BETWEEN c.moment - INTERVAL 5 SECONDS AND c.moment + INTERVAL 10 SECONDS"
    )
    both = calls.alias("c").join(visits.alias("v"), near)
    return both.select("c.district", F.col("c.id").alias("call"), F.col("v.id").alias("visit"), "c.moment")


_SLIDING_ORACLE: Final = """
    SELECT district, time_bucket(INTERVAL 5 SECONDS, moment) - hop * INTERVAL 5 SECONDS AS start, count(*) AS count
    FROM calls, range(4) AS hops(hop) GROUP BY ALL
"""

TUMBLING: Final = Question(
    "tumbling",
    ("calls",),
    "SELECT district, w.start, w.end, count FROM "
    "(SELECT district, window(moment, '10 seconds') AS w, count(*) AS count FROM calls GROUP BY 1, 2)",
    "SELECT district, time_bucket(INTERVAL 10 SECONDS, moment) AS start, start + INTERVAL 10 SECONDS AS end, count(*) AS count "
    "FROM calls GROUP BY ALL",
    event_time="start",
)
MINUTES: Final = Question(
    "minutes",
    ("tumbling",),
    _minutes,
    "SELECT district, time_bucket(INTERVAL 1 MINUTE, moment) AS start, count(*) AS count FROM calls GROUP BY ALL",
)
BOARD: Final = Question(
    "board",
    ("calls", "crews"),
    _board,
    """
    SELECT district, start, start + INTERVAL 10 SECONDS AS end, count, crew
    FROM (SELECT district, time_bucket(INTERVAL 10 SECONDS, moment) AS start, count(*) AS count, max(drain) AS drain
          FROM calls GROUP BY ALL)
    LEFT JOIN crews USING (district, drain)
    """,
    key=("district", "start"),
)
TREND: Final = Question("trend", ("calls",), _trend, _SLIDING_ORACLE, key=("district", "start"))
SESSIONS: Final = Question(
    "sessions",
    ("calls",),
    _sessions,
    """
    WITH ordered AS (
        SELECT *, lag(moment) OVER (PARTITION BY district ORDER BY moment, serial) AS before FROM calls
    ), numbered AS (
        SELECT *, count(*) FILTER (moment - before > INTERVAL 6 SECONDS)
        OVER (PARTITION BY district ORDER BY moment, serial) AS session FROM ordered
    )
    SELECT district, min(moment) AS start, max(moment) + INTERVAL 6 SECONDS AS end, count(*) AS count FROM numbered
    GROUP BY district, session
    """,
)
PAIRS: Final = Question(
    "pairs",
    ("calls", "visits"),
    _pairs,
    """
    SELECT c.district, c.id AS call, v.id AS visit, c.moment
    FROM calls c JOIN visits v
    ON c.district = v.district AND v.moment BETWEEN c.moment - INTERVAL 5 SECONDS AND c.moment + INTERVAL 10 SECONDS
    """,
)
ANSWERED: Final = Question(
    "answered",
    ("calls", "visits"),
    """
    SELECT c.district, c.id AS call, c.moment, v.id AS visit
    FROM calls c LEFT JOIN visits v
    ON c.district = v.district AND v.moment BETWEEN c.moment AND c.moment + INTERVAL 4 SECONDS
    """,
    """
    SELECT c.district, c.id AS call, c.moment, v.id AS visit
    FROM calls c LEFT JOIN visits v
    ON c.district = v.district AND v.moment BETWEEN c.moment AND c.moment + INTERVAL 4 SECONDS
    """,
)
STAFFED: Final = Question(
    "staffed",
    ("calls", "crews"),
    "SELECT district, id, moment, crew FROM calls LEFT JOIN crews USING (district)",
    "SELECT district, id, moment, crew FROM calls LEFT JOIN crews USING (district, drain)",
    event_time="moment",
)
SLIDING: Final = Question(
    "sliding",
    ("staffed",),
    "SELECT district, w.start, count FROM "
    "(SELECT district, window(moment, '20 seconds', '5 seconds') AS w, count(*) AS count FROM staffed GROUP BY 1, 2)",
    _SLIDING_ORACLE,
)
ALL: Final = (TUMBLING, MINUTES, BOARD, TREND, SESSIONS, PAIRS, ANSWERED, STAFFED, SLIDING)
