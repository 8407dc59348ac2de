"""What a plan says of the surroundings of a pipeline: variables, brokers, and the jars of real-time mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.bench.pretended_maven import install_maven

from catchment import Broker
from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.graph import Graph
from catchment.pipelines.planning.needs import needs

# Nothing listens on port 1.
NOWHERE = "127.0.0.1:1"


def graph(*, alert: dict[str, Any] | None = None, **pipeline: Any) -> Graph:
    declared = {
        "pipeline": "city",
        "sources": {"readings": {"topic": "readings", "schema": "room string, degrees double"}},
        "alerts": {
            "hot": {"from": "readings", "when": "degrees > 30", "key": "room", "to": {"topic": "fan"}} | (alert or {}),
        },
    }
    return Graph(Declared(declared | pipeline).check())


@pytest.fixture(autouse=True)
def no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_unavailable_jars_are_no_obstacle_to_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    found = needs(graph(alert={"trigger": "realtime"}), NOWHERE)

    assert found.missing == ()
    (note,) = found.notes
    assert note.startswith("alert hot is decided in micro-batches: Spark's own Kafka connector is not here")


def test_jars_that_maven_will_fetch_are_named_and_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches = install_maven(tmp_path, monkeypatch, '#!/bin/sh\necho "$@" >> "$FETCHES"\n')

    found = needs(graph(alert={"trigger": "realtime"}), NOWHERE)

    assert found.missing == ()
    (note,) = found.notes
    assert "kafka-clients-" in note
    assert "`catchment spark jars` does it beforehand" in note
    assert not fetches.exists()


def test_a_run_without_real_time_alerts_or_with_one_that_cannot_be_needs_no_jars() -> None:
    assert needs(graph(), NOWHERE).notes == ()
    (note,) = needs(graph(alert={"trigger": "realtime", "cooldown": "1 minute"}), NOWHERE).notes
    assert note.startswith("alert hot is decided in micro-batches: cooldown needs the memory")


def test_the_brokers_are_looked_at_where_a_variable_says_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = graph(servers="${SERVERS}", kafka={"client.id": "${CLIENT}"})

    found = needs(declared, None)

    assert found.missing == (
        "the environment variable CLIENT is not set",
        "the environment variable SERVERS is not set",
    )
    assert found.unknown == "the environment variable SERVERS is not set"
    with Broker() as broker:
        monkeypatch.setenv("SERVERS", broker.bootstrap_servers)
        monkeypatch.setenv("CLIENT", "planner")
        assert needs(declared, None).missing == (
            "the topic readings of sources.readings does not exist; `catchment topic create readings` creates it",
        )


def test_a_topic_that_would_lose_quarantined_records_is_named_with_the_way_out() -> None:
    with Broker() as broker:
        broker.create_topic("readings")
        broker.create_topic("city.alerts", settings={"retention.ms": "1000"})
        (note,) = needs(graph(), broker.bootstrap_servers).notes
        assert note.startswith("topic city.alerts is there and has retention.ms=1000, which is left as it is")
        assert "`catchment topic alter city.alerts --set retention.ms=-1`" in note
        assert needs(graph(retention="1 second"), broker.bootstrap_servers).notes == ()
