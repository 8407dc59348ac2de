"""PyFlink's exactly-once sink: killed with its virtual machine and started again from its last checkpoint, it copies each record once.

Flink with its libraries is most of a gigabyte, so this runs in `make soak` alone: CATCHMENT_FLINK is how often it is killed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.committed_reader import CommittedReader
from tests.compat.outside.toolchains import jar, python_with
from tests.compat.program import APPLICATIONS, TIMEOUT_S, Program, until

from catchment.spark.launch.connector_jars import Artifact

pytestmark = [
    pytest.mark.skipif("CATCHMENT_FLINK" not in os.environ, reason="CATCHMENT_FLINK is not set: Flink is large"),
    pytest.mark.timeout(1800),
]
_CONNECTOR = Artifact("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")
_PARTITIONS = 2
_AT_ONCE = 1000
_KILLS = int(os.environ.get("CATCHMENT_FLINK", "0"))


def test_the_sink_writes_each_record_once_though_the_job_and_the_broker_are_killed(tmp_path: Path) -> None:
    with ChildBroker(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topics = [NewTopic(name, _PARTITIONS, 1) for name in ("source", "copy")]
        for created in admin.create_topics(topics).values():
            created.result(30)
        arguments = [broker.bootstrap_servers, str(jar(_CONNECTOR)), str(tmp_path / "checkpoints")]
        command = [str(python_with("pyflink")), str(APPLICATIONS / "pyflink" / "copy_job.py"), *arguments]
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        written = 0
        found: list[int] = []
        # The virtual machine is a child of the interpreter, and dies with it.
        job = Program(command, tmp_path / "job", has_children=True)
        with job, CommittedReader(broker.bootstrap_servers, "copy", _PARTITIONS) as reader:

            def write() -> None:
                nonlocal written
                for number in range(written, written + _AT_ONCE):
                    producer.produce("source", str(number).encode(), partition=number % _PARTITIONS)
                written += _AT_ONCE
                assert producer.flush(TIMEOUT_S) == 0

            def copied() -> int:
                found.extend(int(record.value) for record in reader.poll())
                return len(found)

            write()
            job.until(lambda: copied() >= written)
            for _ in range(_KILLS):
                write()
                job.until(lambda: copied() > written - _AT_ONCE)
                write()
                job.kill()
                job.start()
                job.until(lambda: copied() >= written)
            write()
            broker.kill()
            broker.start()
            until(lambda: copied() >= written, job.tail)
            assert job.is_alive, job.tail()
    assert sorted(found) == list(range(written))
