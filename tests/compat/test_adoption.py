"""A broker adopts a directory with topics that its metadata does not have, such as one that Kafka wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.compat.clients.client import Record
from tests.compat.clients.librdkafka import Librdkafka

from catchment.cluster.local_store import DIRECTORY_NAME
from catchment.testing.embedded import Broker


def test_new_producers_get_no_ids_of_producers_in_an_adopted_log(tmp_path: Path) -> None:
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
