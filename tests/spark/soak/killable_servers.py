"""A broker of either kind behind a proxy, in a process that a test kills and brings back on the same data."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.broker.child_broker import ChildBroker
from tests.compat.java_tool import require_java
from tests.spark.soak.wire_proxy import WireProxy

from catchment.bench.peers.kafka import KafkaServer

Kind = Literal["catchment", "kafka"]
KINDS: Final[tuple[Kind, ...]] = ("catchment", "kafka")
_SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@dataclass(frozen=True)
class KillableServer:
    """What a test needs of a broker that is to die."""

    kind: Kind
    proxy: WireProxy
    kill: Callable[[], object]
    revive: Callable[[], object]
    log_tail: Callable[[], str]

    @property
    def bootstrap_servers(self) -> str:
        return self.proxy.bootstrap_servers


@contextmanager
def killable_server(kind: Kind, directory: Path) -> Iterator[KillableServer]:
    with WireProxy() as proxy:
        settings = {**_SETTINGS, **proxy.advertised}
        with _catchment(proxy, directory, settings) if kind == "catchment" else _kafka(proxy, settings) as server:
            yield server


@contextmanager
def _catchment(proxy: WireProxy, directory: Path, settings: Mapping[str, str]) -> Iterator[KillableServer]:
    broker = ChildBroker(directory, settings)
    proxy.lead_to(broker.port)
    with broker:
        yield KillableServer("catchment", proxy, broker.kill, broker.start, broker.log_tail)


@contextmanager
def _kafka(proxy: WireProxy, settings: Mapping[str, str]) -> Iterator[KillableServer]:
    require_java()
    server = KafkaServer(settings)
    proxy.lead_to(server.port)

    def kill() -> None:
        os.kill(server.process.pid, signal.SIGKILL)

    with server:
        # Restarting is stopping and starting: of a process that is dead already, only the second is left.
        yield KillableServer("kafka", proxy, kill, server.restart, lambda: "Kafka writes its log to a file of its own")
