"""The guide to pipelines works as written: both forms are the same graph, and the commands do what it says."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.client.settled import read_settled

from catchment import Broker

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "pipelines.md"
TIMEOUT_S = 1200
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def block(kind: str) -> str:
    """The first block of a kind."""
    found = re.search(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Both forms of the page's pipeline."""
    pytest.importorskip("pydantic", reason="pydantic is not installed: pip install 'catchment-streaming[pipelines]'")
    (tmp_path / "city.py").write_text(block("python"))
    (tmp_path / "city.yaml").write_text(block("yaml"))
    return tmp_path


def test_both_forms_on_the_page_declare_the_same(folder: Path) -> None:
    from catchment.pipelines.declaration.loading import load

    python, yaml = load(folder / "city.py").specification, load(folder / "city.yaml").specification
    assert yaml.stages["board"].has_code
    assert python.stages["board"].has_code
    left_out = {"stages": {"board": {"sql", "function"}}}
    assert python.model_dump(exclude=left_out) == yaml.model_dump(exclude=left_out)


@pytest.mark.parametrize("file", ["city.py", "city.yaml"])
def test_the_pipeline_of_the_page_counts_and_alerts(folder: Path, file: str) -> None:
    with Broker() as broker:
        broker.create_topic("reports")
        broker.create_topic("crews")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(5):
            event = {"id": str(number), "district": "harbour", "kind": "fire"}
            event["at"] = (NOON + timedelta(seconds=number)).isoformat()
            producer.produce("reports", json.dumps(event))
        producer.produce("reports", "what?")
        producer.produce("crews", '{"district": "harbour", "crew": 2}', key="harbour")
        assert producer.flush(30) == 0
        run(["pipeline", "run", file, "--available-now"], folder, broker.bootstrap_servers)
        with sqlite3.connect(folder / "city.db") as database:
            assert database.execute('SELECT district, "count", crew FROM board').fetchall() == [("harbour", 5, 2)]
        (dispatched,) = read_settled("dispatch", broker.bootstrap_servers, ["value"]).column("value").to_pylist()
        assert json.loads(dispatched)["row"]["count"] == 5
        listed = json.loads(run(["quarantine", "list", "--json"], folder, broker.bootstrap_servers))
        assert [(one["pipeline"], one["records"]) for one in listed] == [("city", 1)]


def run(arguments: list[str], folder: Path, servers: str) -> str:
    options = ["-b", servers, *(["--home", str(folder / "home")] if arguments[0] == "pipeline" else [])]
    command = [sys.executable, "-m", "catchment.cli", *arguments, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
