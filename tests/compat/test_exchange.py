"""Every client reads what every client wrote, in every codec, with headers and without keys or values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
from tests.compat.clients.client import Client, Record, Stored
from tests.compat.clients.registry import CLIENTS, available, client

from catchment.protocol.batch import iterate_headers
from catchment.testing.embedded import Broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LONG = b"compressible " * 40
_RECORDS = (
    Record(b"value " + _LONG, b"key"),
    Record("größer ≠ größe 🌊 ".encode() + _LONG, "schlüssel".encode()),
    Record(b"no key " + _LONG),
    Record(None, b"tombstone"),
    Record(b"", b"empty value"),
    Record(b"empty key " + _LONG, b""),
    Record(_LONG, b"headers", (("name", b"value"), ("empty", b""), ("null", None), ("name", b"again"))),
)


def _records(writer: Client) -> list[Record]:
    if writer.writes_null_headers:
        return list(_RECORDS)
    return [
        record._replace(headers=tuple(header for header in record.headers if header[1] is not None))
        for record in _RECORDS
    ]


class Exchange:
    """A topic for each codec, in which every client that there is has written the records after one another."""

    def __init__(self, broker: Broker, topics: Mapping[str, str]) -> None:
        self._broker = broker
        self.topics = topics
        self.writers = [name for name in CLIENTS if available(name)]
        for codec, topic in topics.items():
            for name in self.writers:
                writer = client(name, broker.bootstrap_servers)
                writer.write(topic, _records(writer), codec=codec)
        self.read = cache(self._read)

    def _read(self, reader: str, codec: str) -> list[Stored]:
        count = len(self.writers) * len(_RECORDS)
        return client(reader, self._broker.bootstrap_servers).read(self.topics[codec], count)

    def written(self, writer: str) -> list[Record]:
        return _records(client(writer, self._broker.bootstrap_servers))

    def first_offset(self, writer: str) -> int:
        if writer not in self.writers:
            client(writer, self._broker.bootstrap_servers)
        return self.writers.index(writer) * len(_RECORDS)


@pytest.fixture(scope="module")
def exchange(broker: Broker, make_topic: Callable[..., str]) -> Exchange:
    return Exchange(broker, {codec: make_topic() for codec in CODECS})


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_every_client_reads_what_every_client_wrote(exchange: Exchange, writer: str, reader: str, codec: str) -> None:
    first, expected = exchange.first_offset(writer), exchange.written(writer)
    stored = exchange.read(reader, codec)[first : first + len(_RECORDS)]
    assert [each.record for each in stored] == expected
    assert [each.offset for each in stored] == list(range(first, first + len(_RECORDS)))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_the_log_keeps_the_codec_that_the_client_chose(
    exchange: Exchange, data_directory: Path, writer: str, codec: str
) -> None:
    first = exchange.first_offset(writer)
    log = (data_directory / f"{exchange.topics[codec]}-0" / f"{0:020}.log").read_bytes()
    batches = [header for _, header in iterate_headers(log) if first <= header.base_offset < first + len(_RECORDS)]
    # A client may leave a batch alone that compression would only make larger.
    assert CODECS.index(codec) in {header.compression for header in batches}
    assert {header.compression for header in batches} <= {0, CODECS.index(codec)}
