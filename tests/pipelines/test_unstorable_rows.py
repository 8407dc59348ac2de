"""A row that a store can never take goes to the quarantine, once, with its reason; the others are stored, and no query stops for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.pipelines.city import City, Report, at
from tests.pipelines.stores.servers import PostgresServer, RedisServer
from typer.testing import CliRunner

from catchment.cli.app import app
from catchment.cli.options import BOOTSTRAP_VARIABLE
from catchment.pipelines import Pipeline, Source, lake, store, topic
from catchment.pipelines.lakes.lake_opening import open_lake
from catchment.pipelines.stores.sql.sqlite import SqliteStore
from catchment.pipelines.stores.store_errors import StoreAway
from catchment.pipelines.stores.store_opening import open_store

if TYPE_CHECKING:
    import pyarrow

NAMELESS: Final = Report("nameless", 1, None)
LONG: Final = Report("long", 2, os.urandom(3_000).hex())
"""Random digits cannot be compressed to what an index has room for."""
DRAWN_OUT: Final = Report("drawn-out", 3, "Llanfair" * 2_000)
"""Longer still, and small once PostgreSQL has compressed it."""
FIRST: Final = Report("first", 4, "harbour")
LAST: Final = Report("last", 5, "harbour")


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """Of the stores that need a server."""
    with ExitStack() as servers:
        postgresql = servers.enter_context(PostgresServer("-c", "fsync=off"))
        redis = servers.enter_context(RedisServer())
        yield {"postgresql": postgresql.new_database(), "redis": redis.new_database()}


def pipeline(city: City, addresses: dict[str, str]) -> Pipeline:
    """Reports, the last of each district, in every store."""
    made = Pipeline(city.name, parallelism=2)
    columns = "id string, district string, kind string, at timestamp"
    reports = made.source(topic(city.reports, schema=columns), name="reports")
    for name, address in {"sqlite": f"sqlite:///{city.folder}/city.db", **addresses}.items():
        made.sink(reports, store(address, table="districts", key="district"), name=name)
    return made


def stored(address: str) -> dict[str, str]:
    """The id of the last report of each district."""
    with open_store(address, "districts") as one:
        return {row["district"]: row["id"] for row in one.read().to_pylist()}


def quarantined(city: City) -> list[tuple[str, str]]:
    """The sink and the id of each row in the quarantine."""
    rows = city.rows(f"{city.name}.quarantine")
    return sorted((row["headers"]["catchment.sink"].decode(), json.loads(row["value"])["id"]) for row in rows)


def send(city: City) -> None:
    """One partition alone, so that the order of reports is that of their rows."""
    for number, one in enumerate((NAMELESS, LONG, DRAWN_OUT, FIRST, LAST)):
        city.send([one], seconds=number)


def quarantine(city: City, *arguments: str) -> Any:
    runner = CliRunner(env={BOOTSTRAP_VARIABLE: city.servers})
    done = runner.invoke(app, ["quarantine", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_rows_that_a_store_can_never_take_are_quarantined_by_what_each_store_can_take(
    city: City, addresses: dict[str, str]
) -> None:
    made = pipeline(city, addresses)
    made.sink(Source("reports"), lake(f"{city.folder}/lake", partition_by="district"), name="lake")
    send(city)
    city.drain(made)

    kept = {str(one.district): one.id for one in (LONG, DRAWN_OUT, LAST)}
    assert stored(f"sqlite:///{city.folder}/city.db") == kept
    assert stored(addresses["redis"]) == kept
    assert stored(addresses["postgresql"]) == {name: one for name, one in kept.items() if one != LONG.id}
    every = [one.id for one in (NAMELESS, LONG, DRAWN_OUT, FIRST, LAST)]
    assert sorted(open_lake(f"{city.folder}/lake").read_arrow().column("id").to_pylist()) == sorted(every)

    nameless = [(sink, NAMELESS.id) for sink in ("postgresql", "redis", "sqlite")]
    assert quarantined(city) == sorted([*nameless, ("postgresql", LONG.id)])
    rows = {
        (row["headers"]["catchment.sink"], json.loads(row["value"])["id"]): row
        for row in city.rows(f"{city.name}.quarantine")
    }
    row = rows[b"sqlite", NAMELESS.id]
    assert json.loads(row["value"]) == {"id": "nameless", "kind": "fire", "at": at(1).strftime("%FT%T.%fZ")}
    assert row["key"] is None
    facts = {name.removeprefix("catchment."): fact.decode() for name, fact in row["headers"].items()}
    assert facts == {
        "error": f"cannot be stored: in table districts of store sqlite:///{city.folder}/city.db, column 'district' is NULL, and "
        "the table finds its rows by it. Give such rows another value in reports, or leave them out there.",
        "pipeline": city.name,
        "stage": "reports",
        "sink": "sqlite",
        "batch": "0",
    }
    row = rows[b"postgresql", LONG.id]
    assert row["key"].decode() == LONG.district
    assert b"column 'district' makes the key too long" in row["headers"]["catchment.error"]

    listed = [one for one in quarantine(city, "list") if one["pipeline"] == city.name]
    assert [(one["stage"], one["error"], one["records"]) for one in listed] == [("reports", "cannot be stored", 4)]
    (shown,) = quarantine(city, "show", city.name, "--error", "too long")
    assert shown["from"] == "sink postgresql"
    replayed = quarantine(city, "replay", city.name, "--execute")
    assert (replayed["sent"], len(replayed["without_origin"])) == (0, 4), "there is no record to send back"


def test_a_repeated_batch_quarantines_nothing_a_second_time(city: City, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pipeline(city, {})
    send(city)
    write = SqliteStore.write

    def away(self: SqliteStore, rows: pyarrow.Table, query: str, batch_id: int, version: int) -> bool:
        raise StoreAway("the disk is full")

    def lost(self: SqliteStore, rows: pyarrow.Table, query: str, batch_id: int, version: int) -> bool:
        write(self, rows, query, batch_id, version)
        raise StoreAway("the outcome is unknown")

    for trouble in (away, lost):
        with monkeypatch.context() as patched:
            patched.setattr(SqliteStore, "write", trouble)
            with pytest.raises(Exception, match=r"the disk is full|the outcome is unknown"):
                city.drain(made)
        assert quarantined(city) == [("sqlite", NAMELESS.id)]
    city.drain(made)
    assert quarantined(city) == [("sqlite", NAMELESS.id)]
    assert stored(f"sqlite:///{city.folder}/city.db") == {str(one.district): one.id for one in (LONG, DRAWN_OUT, LAST)}

    again = Report("nameless-again", 6, None)
    city.send([again], seconds=6)
    city.drain(made)
    assert quarantined(city) == [("sqlite", NAMELESS.id), ("sqlite", again.id)]


def test_text_that_is_not_utf_8_is_quarantined_and_stops_nothing(city: City) -> None:
    made = Pipeline(city.name, parallelism=2)
    columns = "id string, district string, kind string, at timestamp"
    reports = made.source(topic(city.reports, schema=columns), name="reports")
    # Spark takes any bytes for text; no topic lies between this stage and its store, which would replace them.
    named = made.stage("named", reports, sql="SELECT id, string(unhex(kind)) AS district FROM reports", key="id")
    made.sink(named, store(f"sqlite:///{city.folder}/city.db", table="districts"), name="sqlite")
    city.send([Report("sound", 1, kind="c39f"), Report("latin", 2, kind="4df46e"), Report("last", 3, kind="41")], 0)
    city.drain(made)

    assert stored(f"sqlite:///{city.folder}/city.db") == {"ß": "sound", "A": "last"}
    (row,) = city.rows(f"{city.name}.quarantine")
    assert json.loads(row["value"])["id"] == "latin"
    assert b"column 'district' holds text that is not UTF-8: 4df46e" in row["headers"]["catchment.error"]
