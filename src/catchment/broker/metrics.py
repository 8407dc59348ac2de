"""The broker's metrics: plain counters that the hot path increments, and their readings for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from catchment.ports import telemetry
from catchment.ports.telemetry import Reading
from catchment.protocol.apis import APIS

if TYPE_CHECKING:
    from catchment.broker.context import Services
    from catchment.broker.quotas.enforcement import Quotas


class Traffic:
    """Counts requests, bytes and connections."""

    __slots__ = ("bytes_in", "bytes_out", "connections", "produce_batches", "requests", "unsent_bytes")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.produce_batches = 0
        self.connections = 0
        self.unsent_bytes = 0
        """Responses that slow clients have not read yet."""
        self.requests: dict[int, int] = {}
        """By API key."""

    def produced(self, size: int) -> None:
        self.bytes_in += size
        self.produce_batches += 1

    def fetched(self, size: int) -> None:
        self.bytes_out += size

    def requested(self, api_key: int) -> None:
        self.requests[api_key] = self.requests.get(api_key, 0) + 1


def readings(services: Services) -> Iterator[Reading]:
    """The current value of every metric. May run on another thread: each number is read once, containers are copied first."""
    traffic = services.traffic
    yield Reading(telemetry.BYTES_IN, traffic.bytes_in)
    yield Reading(telemetry.BYTES_OUT, traffic.bytes_out)
    yield Reading(telemetry.BATCHES_IN, traffic.produce_batches)
    for api_key, count in sorted(traffic.requests.copy().items()):
        yield Reading(telemetry.REQUESTS, count, (APIS[api_key].name,))
    yield Reading(telemetry.CONNECTIONS, traffic.connections)
    yield Reading(telemetry.UNSENT_BYTES, traffic.unsent_bytes)
    yield from _quota_readings(services.quotas)
    partitions = list(services.replicas)
    yield Reading(telemetry.PARTITIONS, len(partitions))
    for log in [partition.log for partition in partitions]:
        labels = (log.topic, str(log.partition))
        yield Reading(telemetry.LOG_SIZE, log.size_bytes, labels)
        yield Reading(telemetry.LOG_START, log.log_start_offset, labels)
        yield Reading(telemetry.LOG_END, log.log_end_offset, labels)


def _quota_readings(quotas: Quotas) -> Iterator[Reading]:
    yield Reading(telemetry.MUTED_CONNECTIONS, quotas.muted_connections)
    for key, throttle_times_ms in sorted(quotas.throttle_times_ms.copy().items()):
        yield Reading(telemetry.CLIENT_PAUSES, throttle_times_ms, (key,))
    for key, owner, rate in quotas.rates():
        yield Reading(telemetry.CLIENT_RATE, rate, (key, *(name or "" for name in owner)))
