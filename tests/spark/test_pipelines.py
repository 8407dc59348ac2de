"""The source and the sink inside Spark's Declarative Pipelines, run by Spark's own command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")
pytest.importorskip("grpc", reason="grpcio is not installed, and Spark Connect needs it")

import pyspark
from tests.client.logs import CatchmentLogs

from catchment.spark.launch.java import find_java, shim_home

TIMEOUT_S = 1200
SENT = [b"%d" % number for number in range(50)]
SPECIFICATION = """
name: flows
storage: {storage}
libraries:
  - glob:
      include: flows.py
"""
FLOWS = """
from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession
from catchment.spark import register

spark = SparkSession.active()
register(spark)
servers = {{"kafka.bootstrap.servers": "{servers}"}}
pipelines.create_sink("copies", "catchment", {{**servers, "topic": "{sink}"}})

@pipelines.append_flow(target="copies")
def copy() -> DataFrame:
    rows = spark.readStream.format("catchment").options(**servers, subscribe="{source}", startingOffsets="earliest")
    return rows.load().select("value")
"""


@pytest.mark.timeout(1500)
def test_a_pipeline_copies_a_topic(catchment_logs: CatchmentLogs, tmp_path: Path) -> None:
    source, sink = catchment_logs.topic(), catchment_logs.topic()
    catchment_logs.fill(source, SENT)
    (tmp_path / "spark-pipeline.yml").write_text(SPECIFICATION.format(storage=(tmp_path / "storage").as_uri()))
    flows = FLOWS.format(servers=catchment_logs.bootstrap_servers, source=source, sink=sink)
    (tmp_path / "flows.py").write_text(flows)
    environment = {
        **os.environ,
        "JAVA_HOME": str(shim_home(find_java())),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    run = subprocess.run(
        [command, "run", "--remote", "local[1]"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert catchment_logs.settled_values(sink) == SENT
