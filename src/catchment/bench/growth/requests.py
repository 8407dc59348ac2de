"""The processor time of a request at the server, with few and many partitions and connections.

A client also connects and requests metadata, which may grow; so each cost is the difference between a long and a short
run of the same client, divided by the difference of their requests.
"""

from __future__ import annotations

from dataclasses import replace

from confluent_kafka.admin import AdminClient, NewTopic

from catchment.bench.client.load import Load
from catchment.bench.client.run import run_load
from catchment.bench.peers.server import Server

_RECORD_BYTES = 100
_CREATE_TIMEOUT_SECONDS = 120
_PARTITIONS_A_TOPIC = 1_000


def create_partitions(server: Server, topic: str, count: int) -> int:
    """Create that many partitions, in topics of a thousand at most, and return how many the first one has."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    sizes = [min(_PARTITIONS_A_TOPIC, count - made) for made in range(0, count, _PARTITIONS_A_TOPIC)]
    topics = [NewTopic(f"{topic}-{number}", size, 1) for number, size in enumerate(sizes)]
    for future in admin.create_topics(topics, operation_timeout=_CREATE_TIMEOUT_SECONDS).values():
        future.result(_CREATE_TIMEOUT_SECONDS)
    return sizes[0]


def microseconds_a_request(server: Server, load: Load, requests: int) -> float:
    """The server's processor time for one request of this load."""
    short = requests // 5
    _cpu_seconds(server, replace(load, records=short))
    before_seconds = _cpu_seconds(server, replace(load, records=short))
    after_seconds = _cpu_seconds(server, replace(load, records=requests))
    return (after_seconds - before_seconds) / (requests - short) * 1e6


def _cpu_seconds(server: Server, load: Load) -> float:
    began_seconds = server.process.cpu_seconds()
    run_load(load)
    return server.process.cpu_seconds() - began_seconds


def single_record_load(server: Server, topic: str, partitions: int) -> Load:
    """Single-record requests, in turn to each of the partitions."""
    return Load("pipelined", server.bootstrap_servers, f"{topic}-0", 0, _RECORD_BYTES, partitions=partitions)


def connections_load(server: Server, topic: str, connections: int) -> Load:
    """Offset lookups, ten in flight at any time, over all connections in turn."""
    return Load("connections", server.bootstrap_servers, f"{topic}-0", 0, _RECORD_BYTES, partitions=connections)
