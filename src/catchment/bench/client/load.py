"""The loads of a client process. Each returns numbers by the name of what they measure."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from catchment.bench.client.connections import exchange
from catchment.bench.client.librdkafka import BatchProducer, QueueConsumer
from catchment.bench.client.payload import payloads
from catchment.bench.measure import percentile

_FLUSH_TIMEOUT_MS = 120_000
_STALL_TIMEOUT_MS = 30_000
_TIMESTAMP = struct.Struct(">q")
_DISTINCT_RECORDS = 1_000
_RECORDS_A_SMALL_BATCH = 10


@dataclass(frozen=True, slots=True)
class Load:
    """What to send where. `rate` is in records a second and is used for latency alone."""

    kind: str
    bootstrap_servers: str
    topic: str
    records: int
    record_bytes: int
    partitions: int = 1
    acks: str = "all"
    codec: str = "none"
    rate: int = 0


def _producer_settings(load: Load) -> dict[str, str | int]:
    return {
        "bootstrap.servers": load.bootstrap_servers,
        "acks": load.acks,
        "compression.type": load.codec,
        "linger.ms": 5,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 262_144,
    }


def produce(load: Load) -> dict[str, float]:
    """Send all records as fast as they are accepted; the clock stops when the last one is acknowledged."""
    records = payloads(load.record_bytes, min(_DISTINCT_RECORDS, load.records))
    producer = BatchProducer(_producer_settings(load), load.topic, records)
    for partition in range(load.partitions):
        producer.produce(partition, 1)
    producer.flush(_FLUSH_TIMEOUT_MS)
    began = time.perf_counter()
    partition, sent = 0, load.partitions
    while sent < load.records:
        taken = producer.produce(partition, load.records - sent)
        sent += taken
        partition = (partition + 1) % load.partitions
        if taken < len(records):
            producer.wait_for_room(2)
    producer.flush(_FLUSH_TIMEOUT_MS)
    return _throughput(load, load.records - load.partitions, time.perf_counter() - began)


def consume(load: Load) -> dict[str, float]:
    """Read all records from the beginning; the clock starts with the first one, so that connecting does not count."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": load.bootstrap_servers,
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 262_144,
    }
    consumer = QueueConsumer(settings, load.topic, load.partitions)
    first = received = consumer.drain(_STALL_TIMEOUT_MS)
    began = time.perf_counter()
    while received < load.records:
        arrived = consumer.drain(_STALL_TIMEOUT_MS)
        if arrived <= 0:
            raise RuntimeError(f"only {received} of {load.records} records came")
        received += arrived
    return _throughput(load, received - first, time.perf_counter() - began)


def _throughput(load: Load, records: int, seconds: float) -> dict[str, float]:
    return {"records_per_second": records / seconds, "bytes_per_second": records * load.record_bytes / seconds}


def pipelined(load: Load) -> dict[str, float]:
    """One record a request, five requests in flight: the cost of a request."""
    settings = {**_producer_settings(load), "linger.ms": 0, "batch.num.messages": 1, "max.in.flight": 5}
    records_a_call = 100 if load.partitions == 1 else 1
    producer = BatchProducer(settings, load.topic, payloads(load.record_bytes, records_a_call))
    for partition in range(load.partitions):
        producer.produce(partition, 1)
    producer.flush(_FLUSH_TIMEOUT_MS)
    began = time.perf_counter()
    sent = 0
    while sent < load.records:
        sent += producer.produce(sent % load.partitions, load.records - sent)
    producer.flush(_FLUSH_TIMEOUT_MS)
    return {"requests_per_second": load.records / (time.perf_counter() - began)}


def small_batches(load: Load) -> dict[str, float]:
    """Ten records a batch, each batch to the next partition, as many in flight as the library's defaults allow."""
    settings = {**_producer_settings(load), "batch.num.messages": _RECORDS_A_SMALL_BATCH}
    producer = BatchProducer(settings, load.topic, payloads(load.record_bytes, _RECORDS_A_SMALL_BATCH))
    for partition in range(load.partitions):
        producer.produce(partition, 1)
    producer.flush(_FLUSH_TIMEOUT_MS)
    began = time.perf_counter()
    partition, sent = 0, 0
    while sent < load.records:
        taken = producer.produce(partition, load.records - sent)
        sent += taken
        partition = (partition + 1) % load.partitions
        if taken < _RECORDS_A_SMALL_BATCH:
            producer.wait_for_room(2)
    producer.flush(_FLUSH_TIMEOUT_MS)
    return _throughput(load, load.records, time.perf_counter() - began)


def one_by_one(load: Load) -> dict[str, float]:
    """One record, its acknowledgement, the next record: the round trip.

    This load uses the Python client, because it wakes as soon as a delivery report arrives; a flush checks only every ten
    milliseconds.
    """
    producer = Producer({**_producer_settings(load), "linger.ms": 0})
    failures: list[KafkaError] = []
    acknowledged = 0

    def delivered(error: KafkaError | None, message: Message) -> None:
        nonlocal acknowledged
        acknowledged += 1
        if error is not None:
            failures.append(error)

    (record,) = payloads(load.record_bytes, 1)
    began = time.perf_counter()
    for index in range(load.records + 1):
        producer.produce(load.topic, record, partition=0, on_delivery=delivered)
        while acknowledged <= index:
            producer.poll(1)
        if index == 0:
            began = time.perf_counter()
    if failures:
        raise RuntimeError(f"{len(failures)} records failed: {failures[0]}")
    return {"requests_per_second": load.records / (time.perf_counter() - began)}


def latency(load: Load) -> dict[str, float]:
    """Records at a steady rate, each with its send time; a consumer in the same process takes the time of arrival."""
    settings = {**_producer_settings(load), "linger.ms": 0}
    producer = BatchProducer(settings, load.topic, [bytes(load.record_bytes)])
    producer.produce(0, 1)
    producer.flush(_FLUSH_TIMEOUT_MS)
    consumer = QueueConsumer({"bootstrap.servers": load.bootstrap_servers}, load.topic, 1)
    arrivals = consumer.heads(_STALL_TIMEOUT_MS, _TIMESTAMP.size)
    next(arrivals)
    seconds: list[float] = []

    def read() -> None:
        for head in arrivals:
            seconds.append((time.perf_counter_ns() - _TIMESTAMP.unpack(head)[0]) / 1e9)
            if len(seconds) == load.records:
                return

    reader = threading.Thread(target=read)
    reader.start()
    began = time.perf_counter()
    for index in range(load.records):
        time.sleep(max(0.0, began + index / load.rate - time.perf_counter()))
        producer.overwrite(0, _TIMESTAMP.pack(time.perf_counter_ns()))
        producer.produce(0, 1)
    producer.flush(_FLUSH_TIMEOUT_MS)
    reader.join()
    # The first tenth warms up connection, caches and compilers.
    measured = sorted(seconds[len(seconds) // 10 :])
    return {name: percentile(measured, share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}


def connections(load: Load) -> dict[str, float]:
    """Small requests over as many connections as the load has partitions."""
    began = time.perf_counter()
    exchange(load.bootstrap_servers, load.topic, load.partitions, load.records)
    return {"requests_per_second": load.records / (time.perf_counter() - began)}


LOADS: Mapping[str, Callable[[Load], dict[str, float]]] = {
    function.__name__: function
    for function in (produce, consume, small_batches, pipelined, one_by_one, latency, connections)
}
