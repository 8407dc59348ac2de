"""The process of real-time alerts, from a pipeline's file to its end; and who is refused, with which words."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.logs import CatchmentLogs
from tests.pipelines.alerts.alert_world import eventually

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from catchment.client.errors import ClientError
from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.realtime_process import RUNNING, command, failure_of
from catchment.pipelines.execution.run import run_context
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.planning import Current, Decision, Plan, Signature, keep
from catchment.pipelines.realtime.eligibility import NOT_ALLOWED, read_reasons
from catchment.pipelines.realtime.running import require_slots, start_all
from catchment.ports.network import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_S = 150.0
END_S = 450.0


def declared(topic: str, sink: str, **alert: Any) -> dict[str, Any]:
    return {
        "pipeline": f"{topic}-hosts",
        "sources": {
            "readings": {
                "topic": topic,
                "format": "csv",
                "schema": "host string, at timestamp, load double",
                "delimiter": ";",
                "event_time": "at",
                "lateness": "10 seconds",
            }
        },
        "stages": {
            "loaded": {
                "from": "readings",
                "checks": {"expect": "load < 100"},
                "sql": "SELECT * FROM readings",
                "event_time": "at",
            }
        },
        "alerts": {
            "hot": {
                "from": "loaded",
                "when": "load > 0.9",
                "key": "host",
                "trigger": "realtime",
                "to": {"topic": sink},
                **alert,
            }
        },
    }


def keep_version(home: Home, query: str, version: int) -> None:
    """As if the driver had decided that a query starts from scratch in this version."""
    signature = Signature(kind="outlet", reads=("readings",))
    current = Current(version=1, queries={query: signature})
    keep(home, Plan({query: Decision("new version", version)}, current))


def start(servers: str, specification: dict[str, Any], folder: Path) -> subprocess.Popen[str]:
    # YAML reads JSON.
    (folder / "hosts.yaml").write_text(json.dumps(specification))
    arguments = command(folder / "hosts.yaml", folder / "home", "local[1]", servers)
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_pipeline_with_a_realtime_alert_runs_in_a_process_of_its_own_until_its_input_ends(
    peer_jars: str | None, catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    if peer_jars is None:
        pytest.skip("the jars of Spark's own Kafka connector cannot be fetched: they need Maven")
    # Two partitions and a stage with code need more slots than the master that is asked for.
    topic, sink = catchment_logs.topic(partitions=2), catchment_logs.topic()
    specification = declared(topic, sink)
    catchment_logs.create(f"{specification['pipeline']}.alerts", 1, {})
    catchment_logs.fill(topic, [b"a;2020-03-01T12:00:00Z;0.95", b"b;2020-03-01T12:00:00Z;0.5"])
    keep_version(Home(tmp_path / "home", specification["pipeline"]), "outlet-alert-hot", 2)
    sent = [b"d;2020-03-01T12:00:00Z;500", b"e;2020-03-01T12:00:00Z;0.99;more", b"f;2099-03-01T12:00:00Z;0.99"]
    catchment_logs.fill(topic, [*sent, b"c;2020-03-01T12:00:00Z;0.99"], partition=1)
    with start(catchment_logs.bootstrap_servers, specification, tmp_path) as process:
        try:
            eventually(lambda: len(catchment_logs.values(sink)) == 2 or process.poll() is not None, timeout_s=START_S)
            # This closes its input.
            reported, said = process.communicate(timeout=END_S)
        finally:
            process.kill()
    assert (process.returncode, reported) == (ExitCode.DONE, RUNNING.decode()), said
    found = [json.loads(value or b"") for value in catchment_logs.values(sink)]
    assert sorted(one["row"]["host"] for one in found) == ["a", "c"]
    checkpoints = tmp_path / "home" / specification["pipeline"] / "checkpoints"
    assert [one.name for one in checkpoints.iterdir()] == ["outlet-alert-hot.realtime-v2"], "as the driver has decided"


def test_what_the_mode_does_not_allow_is_reported_before_spark_starts(
    catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    with start(
        catchment_logs.bootstrap_servers, declared("readings", "out", cooldown="5 minutes"), tmp_path
    ) as process:
        _, said = process.communicate(timeout=END_S)
    assert process.returncode == NOT_ALLOWED
    assert said.startswith("alert hot cannot run in real-time mode: cooldown needs the memory")
    (reason,) = read_reasons(Home(tmp_path / "home", "readings-hosts"))["hot"]
    assert reason.startswith("cooldown needs the memory")


def test_unavailable_jars_are_a_reason_of_every_alert(
    catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with start(catchment_logs.bootstrap_servers, declared(catchment_logs.topic(), "out"), tmp_path) as process:
        _, said = process.communicate(timeout=END_S)
    assert process.returncode == NOT_ALLOWED, said
    (folder,) = (tmp_path / "home").iterdir()
    (reason,) = read_reasons(Home(tmp_path / "home", folder.name))["hot"]
    assert reason.startswith("Spark's own Kafka connector is not here")


def test_settings_that_java_has_no_form_for_are_a_reason_of_every_alert(
    catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    specification = declared("readings", "out") | {"kafka": {"ssl.ca.location": str(tmp_path)}}
    with start(catchment_logs.bootstrap_servers, specification, tmp_path) as process:
        _, said = process.communicate(timeout=END_S)
    assert process.returncode == NOT_ALLOWED, said
    (reason,) = read_reasons(Home(tmp_path / "home", "readings-hosts"))["hot"]
    assert reason.startswith("ssl.ca.location names the directory")


def test_brokers_that_are_away_are_distinguished_from_errors(tmp_path: Path) -> None:
    specification = declared("readings", "out") | {"kafka": {"default.api.timeout.ms": "500"}}
    with start(f"127.0.0.1:{free_port()}", specification, tmp_path) as process:
        _, said = process.communicate(timeout=END_S)
    assert process.returncode == ExitCode.AWAY, said


def test_a_query_that_the_java_client_left_without_brokers_waits_for_them() -> None:
    lost_task = "Lost task 0.0 in stage 1.0 (TID 1) (192.0.2.2 executor driver)"
    away = "org.apache.kafka.common.errors.TimeoutException: Topic city.alerts not present in metadata after 60000 ms."
    assert failure_of("hot", Exception(f"{lost_task}: {away}")).exit_code == ExitCode.AWAY
    assert failure_of("hot", Exception(f"{lost_task}: java.lang.ArithmeticException")).exit_code == ExitCode.FAILED
    assert failure_of("hot", None).exit_code == ExitCode.FAILED


def test_too_few_slots_are_refused_before_any_query_starts(
    spark_with_peer: SparkSession, catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    topic = catchment_logs.topic(partitions=3)
    specification = PipelineSpecification.model_validate(declared(topic, "out"))
    home = Home(tmp_path, specification.pipeline)
    context = run_context(
        spark_with_peer, Graph(specification), home=home, folder=tmp_path, servers=catchment_logs.bootstrap_servers
    )
    with pytest.raises(ClientError, match=r"3 in all \(hot 3\), and the session has 2"):
        start_all(context)
    require_slots(spark_with_peer, {"hot": 1, "cold": 1})
    with pytest.raises(ClientError, match=r"\(hot 1, cold 2\)"):
        require_slots(spark_with_peer, {"hot": 1, "cold": 2})
