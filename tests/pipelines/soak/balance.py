"""The balance, computed by DuckDB independently of pipelines: every way in which the evidence may contradict itself, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import duckdb
import pyarrow
from tests.checkers.log_checker import Anomaly

_NAMED: Final = 5
_VIEWS: Final = """
CREATE TEMP VIEW kept AS SELECT * FROM log ANTI JOIN quarantined USING (part, place);
CREATE TEMP VIEW sound AS SELECT log.* FROM log JOIN sent USING (number) WHERE deed <> 'broken';
CREATE TEMP VIEW wanted AS
    SELECT district, at_us // 10_000_000 * 10_000_000 AS start_us, start_us + 10_000_000 AS end_us,
        count(*) AS count, count_if(origin = 'citizen') AS calls, any_value(crew) AS crew
    FROM clean LEFT JOIN crews USING (district) GROUP BY ALL;
CREATE TEMP VIEW over AS
    SELECT sink, district, start_us, end_us, count FROM wanted, (SELECT unnest(['lake', 'sqlite', 'postgresql', 'redis']) AS sink)
    WHERE end_us <= (SELECT max(at_us) FROM clean) - 20_000_000;
CREATE TEMP VIEW stores AS SELECT unnest(['sqlite', 'postgresql', 'redis']) AS store;
CREATE TEMP VIEW dispatched AS SELECT * FROM alerts_written WHERE topic = 'dispatch';
CREATE TEMP VIEW bursts AS SELECT district, end_us FROM wanted WHERE calls > 40 AND crew < 3;
"""
_ANOMALIES: Final = {
    "lost by the log": """
        SELECT number, copies, count(log.part) AS found FROM sent LEFT JOIN log USING (number)
        GROUP BY number, copies, resent HAVING found NOT BETWEEN copies AND copies + resent""",
    "lost write": "SELECT number, part, place FROM kept ANTI JOIN clean USING (number)",
    "duplicate": "SELECT number, count(*) AS times FROM clean GROUP BY number HAVING times > 1",
    "stored from nowhere": "SELECT number FROM clean ANTI JOIN kept USING (number)",
    "quarantined twice": "SELECT part, place, count(*) AS times FROM quarantined GROUP BY ALL HAVING times > 1",
    "quarantined from nowhere": "SELECT number, kind, part, place FROM quarantined ANTI JOIN log USING (part, place, number)",
    "broken and not rejected": """
        SELECT number FROM clean JOIN sent USING (number) WHERE deed = 'broken'
        UNION ALL SELECT number FROM quarantined JOIN sent USING (number) WHERE deed = 'broken' AND kind = 'late'""",
    "sound and rejected": "SELECT number FROM quarantined JOIN sent USING (number) WHERE kind = 'rejected' AND deed <> 'broken'",
    "late without a cause": """
        SELECT number, part, place, at_us, watermark_us FROM quarantined JOIN log USING (part, place, number)
        WHERE quarantined.kind = 'late' AND (at_us > watermark_us
            OR watermark_us NOT IN (SELECT at_us - 20_000_000 FROM sound))""",
    "not in the lake": "SELECT * FROM clean EXCEPT ALL SELECT * FROM lake",
    "in the lake alone": "SELECT * FROM lake EXCEPT ALL SELECT * FROM clean",
    "not in a store": "SELECT stores.store, wanted.* FROM stores, wanted EXCEPT ALL SELECT * FROM boards",
    "in a store alone": "SELECT * FROM boards EXCEPT ALL SELECT stores.store, wanted.* FROM stores, wanted",
    "window not closed": "SELECT * FROM over EXCEPT ALL SELECT * FROM closed",
    "window closed otherwise": "SELECT * FROM closed EXCEPT ALL SELECT * FROM over",
    "alert written twice": "SELECT topic, id, count(*) AS times FROM alerts_written GROUP BY ALL HAVING times > 1",
    "alert missing in a topic": "SELECT id, list(topic) AS alerts_written FROM alerts_written GROUP BY id HAVING count(DISTINCT topic) < 3",
    "alert without a cause": "SELECT district, end_us FROM dispatched ANTI JOIN bursts USING (district, end_us)",
    "alert too soon": """
        SELECT a.district, a.end_us FROM dispatched a JOIN dispatched b
        ON a.district = b.district AND b.end_us > a.end_us AND b.end_us < a.end_us + 60_000_000""",
    "alert that never came": """
        SELECT district, end_us FROM bursts WHERE NOT EXISTS (
            SELECT 1 FROM dispatched WHERE district = bursts.district AND abs(end_us - bursts.end_us) < 60_000_000)""",
}


def anomalies_in(evidence: Mapping[str, pyarrow.Table]) -> list[Anomaly]:
    """The first few anomalies of each kind."""
    with duckdb.connect() as connection:
        for name, table in evidence.items():
            connection.register(name, table)
        connection.execute(_VIEWS)
        return [
            Anomaly(name, str(row))
            for name, sql in _ANOMALIES.items()
            for row in connection.execute(f"SELECT * FROM ({sql}) LIMIT {_NAMED}").fetchall()
        ]


def sums(evidence: Mapping[str, pyarrow.Table]) -> dict[str, int]:
    """The counts of the evidence: a balance over nothing shows nothing."""
    quarantined = Counter(evidence["quarantined"].column("kind").to_pylist())
    arrived, stored = evidence["log"].num_rows, evidence["clean"].num_rows
    duplicate = arrived - stored - quarantined.total()
    alerts = len(set(evidence["alerts_written"].column("id").to_pylist()))
    found = {
        "late": quarantined["late"],
        "rejected": quarantined["rejected"],
        "alerts": alerts,
        "closed": evidence["closed"].num_rows,
    }
    return {"in": arrived, "stored": stored, "duplicate": duplicate, **found}
