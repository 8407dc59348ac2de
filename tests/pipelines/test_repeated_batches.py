"""A driver killed between a sink's commit and Spark's own repeats the batch: a stage with state goes on, and no row counts twice."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow
import pyarrow.parquet
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from tests.pipelines.city import DISTRICTS, SCHEMA, City, Report, at
from tests.pipelines.stores.servers import PostgresServer, RedisServer

from catchment.pipelines import Pipeline, lake, store, topic
from catchment.pipelines.execution import stages
from catchment.pipelines.execution.run import Run
from catchment.pipelines.lakes.lake_opening import open_lake
from catchment.pipelines.stores.store_opening import open_store
from catchment.spark.checkpoint.progress import SparkCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APPENDED: Final = ("delta", "sqlite", "postgresql", "redis", "copied", "alerted")
UPDATED: Final = ("changelog",)
AT_ONCE: Final = 3
COUNT: Final = """
SELECT district, w.start, w.end, n FROM (SELECT district, window(at, '10 seconds') w, count(*) n FROM reports GROUP BY 1, 2)
"""
Counts = Counter[tuple[str, int]]


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """Of the stores that need a server."""
    with ExitStack() as servers:
        postgresql = servers.enter_context(PostgresServer("-c", "fsync=off"))
        redis = servers.enter_context(RedisServer())
        yield {"postgresql": postgresql.new_database(), "redis": redis.new_database()}


def pipeline(city: City, stores: dict[str, str]) -> Pipeline:
    """Counts of ten seconds, computed once for each sink: none of them has a topic between the state and what is written."""
    made = Pipeline(city.name, parallelism=2)
    reports = made.source(topic(city.reports, schema=SCHEMA), name="reports", event_time="at", lateness="0 seconds")
    stages = {name: made.stage(name, reports, sql=COUNT, key=["district", "start"]) for name in APPENDED}
    stages |= {name: made.stage(name, reports, sql=COUNT, key=["district", "start"], mode="update") for name in UPDATED}
    made.sink(stages["delta"], lake(f"{city.folder}/lake"))
    for kind, address in stores.items():
        made.sink(stages[kind], store(address, table="counts"))
    for name in ("copied", "changelog"):
        made.sink(stages[name], topic(f"{city.name}-{name}"))
    told = topic(f"{city.name}-alerted")
    made.alert(stages["alerted"], "counted", when="n > 0", key=["district"], cooldown="1 millisecond", to=[told])
    return made


def send(city: City, number: int, reports: list[Report]) -> None:
    """Reports as a file that the stages read: what is tried here lies behind them, and such a source costs no processes."""
    folder = city.folder / "reports"
    folder.mkdir(exist_ok=True)
    rows = {"district": [one.district for one in reports], "at": [at(one.seconds) for one in reports]}
    with tempfile.NamedTemporaryFile(dir=city.folder) as file:
        pyarrow.parquet.write_table(pyarrow.table(rows), file.name)
        os.link(file.name, folder / f"{number}.parquet")


def drain(city: City, made: Pipeline) -> Run:
    """Process what is there, by a few queries at a time: a machine that is busy starts no more at once."""
    run = Run(city.context(made))
    run.build()
    names = run.context.graph.order[-1]
    for first in range(0, len(names), AT_ONCE):
        for query in [run.start_query(name, available_now=True) for name in names[first : first + AT_ONCE]]:
            query.awaitTermination()
    run.stop()
    return run


def found(city: City, stores: dict[str, str]) -> dict[str, Counts]:
    """How many reports each sink has counted, by district and window, every row that it has; of changes, the last."""
    counts: dict[str, Counts] = {}
    counts["delta"] = summed(open_lake(f"{city.folder}/lake").read_arrow().to_pylist())
    for kind, address in stores.items():
        counts[kind] = stored(address, "counts")
    counts["copied"] = summed(city.values(f"{city.name}-copied"))
    counts["alerted"] = summed([one["row"] for one in city.values(f"{city.name}-alerted")])
    changes = city.values(f"{city.name}-changelog")
    assert len({json.dumps(one) for one in changes}) == len(changes), "each change is there once"
    counts["changelog"] = summed({(one["district"], one["start"]): one for one in changes}.values())
    return counts


def stored(address: str, table: str) -> Counts:
    with open_store(address, table) as one:
        return summed(one.read().to_pylist())


def summed(rows: Iterable[Mapping[str, Any]]) -> Counts:
    counts: Counts = Counter()
    for row in rows:
        counts[row["district"], int(str(row["start"])[17:19])] += row["n"]
    return counts


def test_a_repeated_batch_of_a_stage_with_state_is_computed_and_changes_nothing(
    city: City, addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def files(*_: object, **__: object) -> DataFrame:
        reports = city.spark.readStream.schema("district string, at timestamp").parquet(f"{city.folder}/reports")
        return reports.withWatermark("at", "0 seconds")

    monkeypatch.setattr(stages, "input_rows", files)
    stores = {"sqlite": f"sqlite:///{city.folder}/city.db", **addresses}
    made = pipeline(city, stores)
    first = [Report(f"a{number}", number % 20, DISTRICTS[number % 3]) for number in range(30)]
    second = [Report(f"b{number}", 20 + number, DISTRICTS[number % 3]) for number in range(10)]
    send(city, 0, first)
    run = drain(city, made)
    repeated = {}
    for name in run.queries:
        newest = SparkCheckpoint.at(run.context.checkpoint(name)).newest_finished()
        assert newest is not None
        # As if the driver had been killed before Spark noted the batch.
        (Path(run.context.checkpoint(name)) / "commits" / str(newest)).unlink()
        repeated[name] = newest
    # The last report closes the windows before it.
    send(city, 1, [*second, Report("last", 40)])
    run = drain(city, made)

    closed = Counter((str(one.district), int(one.seconds) // 10 * 10) for one in (*first, *second))
    assert found(city, stores) == {
        **dict.fromkeys(APPENDED, closed),
        **dict.fromkeys(UPDATED, closed + Counter({("harbour", 40): 1})),
    }
    assert len(repeated) == len(APPENDED) + len(UPDATED)
    for name, batch_id in repeated.items():
        newest = SparkCheckpoint.at(run.context.checkpoint(name)).newest_finished()
        assert (newest or 0) > batch_id, f"{name} goes on"
