"""A directory whose topics the broker's own metadata does not know, as when Kafka wrote it, is taken in."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.compat.clients.client import Record
from tests.compat.clients.librdkafka import Librdkafka

from catchment.cluster.local_store import DIRECTORY_NAME
from catchment.testing.embedded import Broker


def test_new_producers_are_not_taken_for_those_that_an_adopted_log_remembers(tmp_path: Path) -> None:
    records = [Record(b"value %d" % number) for number in range(6)]
    with Broker(tmp_path) as broker:
        broker.create_topic("flow")
        for record in records[:3]:
            Librdkafka(broker.bootstrap_servers).write("flow", [record], idempotent=True)
    shutil.rmtree(tmp_path / DIRECTORY_NAME)
    with Broker(tmp_path) as broker:
        client = Librdkafka(broker.bootstrap_servers)
        for record in records[3:]:
            client.write("flow", [record], idempotent=True)
        assert [stored.record for stored in client.read("flow", 6)] == records
