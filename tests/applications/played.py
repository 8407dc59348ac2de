"""An application played through in a few seconds: its events of a minute sent at once, processed by Spark, and acted upon."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.client.settled import read_settled

from catchment.applications.catalogue import Actuator, actuator_of, generator_of
from catchment.applications.running.account import Account
from catchment.applications.running.events import ID_HEADER, Disturbed
from catchment.applications.running.layout import Layout, lay_out
from catchment.applications.running.ledger import Ledger
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.execution.run import Run, run_context
from catchment.pipelines.execution.session import carry_modules
from catchment.pipelines.graph import Graph
from catchment.pipelines.stores.store_opening import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAY_S: Final = 86_400
BEGIN_S: Final = int(time.time()) // _DAY_S * _DAY_S - _DAY_S // 2
"""Yesterday at noon: far from the end of a day, and too young for a store to forget it."""
_TIMEOUT_S: Final = 300.0
_LONG_S: Final = 300.0


@dataclass
class Played:
    """An application after its story, and what it can be asked."""

    layout: Layout
    servers: str
    account: Account
    actuator: Actuator
    acted: list[str]

    def clean(self) -> list[dict[str, Any]]:
        return self.values(self.layout.clean)

    def values(self, topic: str) -> list[dict[str, Any]]:
        """The committed records of a topic."""
        return [json.loads(one) for one in read_settled(topic, self.servers, ["value"]).column("value").to_pylist()]

    def stored(self) -> list[dict[str, Any]]:
        """The rows that readers of the real-time store see."""
        assert self.layout.store is not None
        with open_store(f"sqlite:///{self.layout.store.file}", self.layout.store.table) as store:
            rows: list[dict[str, Any]] = store.read().to_pylist()
        return rows


class Story:
    """One application, its topics, and the events of its world at times of our choosing."""

    def __init__(self, name: str, spark: SparkSession, servers: str, folder: Path) -> None:
        self.layout = lay_out(name, folder)
        self._spark = spark
        self._servers = servers
        self._random = Random(3)
        self._generator = generator_of(name)
        self._disturbed = Disturbed(self._generator, self._random, 0, lateness_s=self.layout.lateness_s)
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        admin = AdminClient({"bootstrap.servers": servers})
        wanted = [NewTopic(self.layout.source, 2), *(NewTopic(one, 1) for one in self.layout.tables)]
        for made in admin.create_topics(wanted).values():
            made.result(_TIMEOUT_S)
        for topic, rows in self._generator.tables.items():
            for key, row in rows.items():
                self._producer.produce(topic, json.dumps(row), key)
        assert self._producer.flush(_TIMEOUT_S) == 0

    def send(self, seconds: range, events_a_second: int, *, is_last: bool = True) -> None:
        """The events of these seconds, with the times that they have."""
        with Ledger(self.layout.ledger) as ledger:
            for second in seconds:
                ledger.write(self._disturbed.make(events_a_second, BEGIN_S + second))
                self._send_due(BEGIN_S + second)
        if is_last:
            for second in range(seconds.stop, seconds.stop + 200):
                self._send_due(BEGIN_S + second)
        assert self._producer.flush(_TIMEOUT_S) == 0

    def drain(self) -> None:
        """Let Spark process what is there."""
        self._built().drain()

    def run_until_commanded(self, query: str, count: int) -> None:
        """Let one query go on until there are so many commands, as those have to that go by the clock."""
        run = self._built()
        run.start_query(query)
        assert self.layout.commands is not None
        deadline_s = time.monotonic() + _LONG_S
        while read_settled(self.layout.commands, self._servers, ["value"]).num_rows < count:
            assert time.monotonic() < deadline_s, f"{query} took too long"
            time.sleep(0.5)
        run.stop()

    def _built(self) -> Run:
        loaded = load(self.layout.file)
        carry_modules(loaded.folder)
        context = run_context(
            self._spark,
            Graph(loaded.specification),
            home=self.layout.home,
            folder=loaded.folder,
            servers=self._servers,
        )
        run = Run(context)
        run.build()
        return run

    def end(self) -> Played:
        """Act on the commands, and read everything back."""
        account = Account(self.layout, self._servers)
        deadline_s = time.monotonic() + _TIMEOUT_S
        while not account.totals.arrived or (account.totals.on_the_way and time.monotonic() < deadline_s):
            account.refresh()
        account.close()
        actuator = actuator_of(self.layout.name)
        played = Played(self.layout, self._servers, account, actuator, [])
        assert self.layout.commands is not None
        for command in sorted(played.values(self.layout.commands), key=lambda one: str(one["event_time"])):
            if (done := actuator.act(command)) is not None:
                played.acted.append(done)
        return played

    def _send_due(self, now_s: float) -> None:
        for record in self._disturbed.due(now_s):
            self._producer.produce(
                self.layout.source,
                record.value,
                record.key,
                timestamp=int(now_s * 1000),
                headers=[(ID_HEADER, str(record.number))],
            )
