"""A Spark Connect server: the session on this side, the source and the sink on the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")
pytest.importorskip("grpc", reason="grpcio is not installed, and Spark Connect needs it")

from tests.client.logs import CatchmentLogs
from tests.spark.standalone import start_connect_server

TIMEOUT_S = 1000
SENT = [b"%d" % number for number in range(50)]
# A batch copy, then a stream. A process of its own, for PySpark makes either remote sessions or local ones.
JOB = """
import sys
from catchment.spark import session
address, servers, source, batch_sink, stream_sink, checkpoint = sys.argv[1:]
spark = session(address)
common = {"kafka.bootstrap.servers": servers}
rows = spark.read.format("catchment").options(**common, subscribe=source).load()
print(type(rows).__module__, rows.count())
rows.select("value").write.format("catchment").options(**common, topic=batch_sink).mode("append").save()
stream = spark.readStream.format("catchment").options(**common, subscribe=source, startingOffsets="earliest").load()
copy = stream.select("value").writeStream.format("catchment").options(**common, topic=stream_sink)
query = copy.option("checkpointLocation", checkpoint).queryName("copy").trigger(availableNow=True).start()
print(query.awaitTermination(100))
spark.stop()
"""


@pytest.mark.timeout(1500)
def test_a_remote_session_reads_and_writes_in_batches_and_streams(
    catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    source, batch_sink, stream_sink = (catchment_logs.topic() for _ in range(3))
    catchment_logs.fill(source, SENT)
    server, address = start_connect_server(tmp_path)
    with server:
        server.wait_for("Spark Connect server started at")
        topics = [catchment_logs.bootstrap_servers, source, batch_sink, stream_sink]
        job = subprocess.run(
            [sys.executable, "-c", JOB, address, *topics, str(tmp_path / "checkpoint")],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert job.stdout.split() == ["pyspark.sql.connect.dataframe", "50", "True"], job.stderr
    assert catchment_logs.settled_values(batch_sink) == SENT
    assert catchment_logs.settled_values(stream_sink) == SENT
