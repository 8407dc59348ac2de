"""A server under measurement, and the flush policies under which servers are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from catchment.bench.measure import Section
from catchment.bench.peers.catchment import CatchmentServer, CeilingServer
from catchment.bench.peers.kafka import KafkaServer
from catchment.bench.peers.rabbitmq import RabbitServer
from catchment.bench.peers.server import Server

OURS = "catchment"
CEILING = "ceiling"
KAFKA = "kafka"
RABBITMQ = "rabbitmq"
PEERS = (KAFKA, RABBITMQ)


@dataclass(frozen=True, slots=True)
class FlushPolicy(Section):
    """When a record counts as written, the same for every server compared under it."""

    settings: Mapping[str, Mapping[str, str]]


UNFLUSHED = FlushPolicy(
    "unflushed",
    "acknowledged from the page cache (Kafka's default)",
    {OURS: {"catchment.sync.acks": "false"}, KAFKA: {}},
)
FLUSHED = FlushPolicy(
    "flushed",
    "acknowledged after the disk has it (Catchment's default)",
    {OURS: {"catchment.sync.acks": "true"}, KAFKA: {"log.flush.interval.messages": "1"}},
)
DEFAULTS = FlushPolicy(
    "defaults",
    "each by its own default: Catchment after the disk has it, Kafka from the page cache",
    {OURS: FLUSHED.settings[OURS], KAFKA: UNFLUSHED.settings[KAFKA]},
)
POLICIES = (UNFLUSHED, FLUSHED, DEFAULTS)


@dataclass(frozen=True, slots=True)
class Target:
    """A running server, and how to start another one like it."""

    name: str
    factory: Callable[[], Server]
    server: Server


def factories(policy: FlushPolicy, names: list[str]) -> dict[str, Callable[[], Server]]:
    """How to start each of the named servers under a policy, without those that do not support it."""
    known: dict[str, Callable[[], Server]] = {
        OURS: partial(CatchmentServer, policy.settings[OURS]),
        KAFKA: partial(KafkaServer, policy.settings[KAFKA]),
    }
    # A quorum queue confirms after its flush, a stream before: each is used where it is comparable.
    known[RABBITMQ] = partial(RabbitServer, "--stream-queue" if policy is UNFLUSHED else "--quorum-queue")
    if policy is UNFLUSHED:
        known[CEILING] = CeilingServer
    return {name: known[name] for name in names if name in known}
