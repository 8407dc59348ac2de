"""A job on a standalone cluster of two workers, of which one dies in the middle."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from tests.client.logs import CatchmentLogs
from tests.spark.standalone import SHORT_LIVED, start_master, start_worker

from catchment.client.cluster import Cluster
from catchment.client.offsets import LATEST

TIMEOUT_S = 1200
RECORDS = 2_000
PARTITIONS = 4
# It says when both workers have executors, and then copies the topic in many small batches.
JOB = """
import sys, time
from catchment.spark import session
master, executor_options, servers, source, sink, checkpoint = sys.argv[1:]
config = {"spark.executor.memory": "512m", "spark.cores.max": "2", "spark.sql.shuffle.partitions": "2"}
config["spark.executor.extraJavaOptions"] = executor_options
with session(master, config=config) as spark:
    executors = spark._jsc.sc().statusTracker()
    while len(executors.getExecutorInfos()) < 3:
        time.sleep(0.1)
    options = {"kafka.bootstrap.servers": servers, "checkpointLocation": checkpoint, "topic": sink}
    rows = spark.readStream.format("catchment").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "200").load()
    copy = rows.selectExpr("key", "value").writeStream.format("catchment").options(**options)
    print("started", flush=True)
    assert copy.trigger(availableNow=True).start().awaitTermination(200)
"""


def committed(cluster: Cluster, topic: str) -> int:
    places = [(topic, partition) for partition in range(PARTITIONS)]
    return sum(end.offset for end in cluster.list_offsets(places, LATEST, read_committed=True).values())


@pytest.mark.timeout(1500)
def test_a_worker_killed_in_the_middle_costs_no_record_and_doubles_none(
    catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    source, sink = catchment_logs.topic(PARTITIONS), catchment_logs.topic(PARTITIONS)
    sent = [b"%d" % number for number in range(RECORDS)]
    for partition in range(PARTITIONS):
        catchment_logs.fill(source, sent[partition::PARTITIONS], partition=partition)
    with ExitStack() as servers:
        master, address = start_master(tmp_path)
        servers.enter_context(master)
        workers = [servers.enter_context(start_worker(tmp_path, f"worker-{number}", address)) for number in (1, 2)]
        arguments = [address, SHORT_LIVED, catchment_logs.bootstrap_servers, source, sink, str(tmp_path / "checkpoint")]
        job = servers.enter_context(
            subprocess.Popen([sys.executable, "-c", JOB, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
        servers.callback(job.kill)
        with Cluster(catchment_logs.bootstrap_servers) as cluster:
            deadline_s = time.monotonic() + TIMEOUT_S
            while (done := committed(cluster, sink)) < RECORDS // 10:
                assert job.poll() is None, job.communicate()
                assert time.monotonic() < deadline_s, f"the job has written {done} records"
                time.sleep(0.05)
            assert done < RECORDS, "the job was too fast to be disturbed"
            workers[0].kill()
        said, complaints = job.communicate(timeout=TIMEOUT_S)
        assert (job.returncode, said) == (0, b"started\n"), complaints.decode()
    found = Counter(
        value for partition in range(PARTITIONS) for value in catchment_logs.settled_values(sink, partition)
    )
    assert found == Counter(sent)
