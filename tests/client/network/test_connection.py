"""One connection: requests ahead of responses, responses in pieces, and servers that violate the protocol."""

from __future__ import annotations

import threading
import time

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.response import MetadataResponse
from kio.schema.types import BrokerId
from kio.schema.vote.v2.request import VoteRequest
from tests.client.logs import Logs
from tests.client.scripted_broker import NO_TIME, Peer, frame_of, scripted, versions_response

from catchment.client.cluster import Cluster
from catchment.client.errors import SettingsError, TimedOut, Unreachable
from catchment.client.network.connection import Connection, wait
from catchment.client.settings import ConnectionSettings, split_address
from catchment.client.topic_metadata import metadata_request

EMPTY = MetadataResponse(
    throttle_time=NO_TIME, brokers=(), controller_id=BrokerId(-1), topics=(), error_code=ErrorCode.none
)
QUESTION = metadata_request(())


def connect(address: str, timeout_s: float = 10) -> Connection:
    return Connection(*split_address(address), ConnectionSettings.read({}), timeout_s)


def test_responses_to_requests_sent_ahead_are_in_order(logs: Logs) -> None:
    with Cluster(logs.bootstrap_servers) as cluster, cluster.connection(1) as connection:
        tickets = [connection.send(metadata_request(topics)) for topics in ((), None, ())]
        assert connection.pending == 3
        responses = [connection.receive() for _ in tickets]
        assert [response.correlation_id for response in responses] == tickets
        assert all(response.decode().brokers for response in responses)
        assert connection.pending == 0


def test_a_response_in_pieces_is_kept_until_it_is_complete() -> None:
    goes_on = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        asked = peer.request()
        frame = frame_of(asked, EMPTY, asked.api_version)
        for start, end in ((0, 2), (2, 9), (9, len(frame))):
            peer.send(frame[start:end])
            assert goes_on.wait(10)

    with scripted(script) as address, connect(address) as connection:
        connection.send(QUESTION)
        for timeout_s in (0.05, 0):
            with pytest.raises(TimedOut):
                connection.receive(timeout_s)
        goes_on.set()
        assert connection.receive().decode() == EMPTY
        assert connection.is_open


def test_wait_returns_the_connections_with_a_response() -> None:
    goes_on = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        asked = peer.request()
        assert goes_on.wait(10)
        peer.respond(asked, EMPTY)
        peer.request()

    with scripted(script) as address, connect(address) as asking, connect(address) as silent:
        asking.send(QUESTION)
        assert wait([asking, silent], 0.01) == []
        goes_on.set()
        assert wait([asking, silent], 10) == [asking]


def test_an_old_broker_gets_the_oldest_api_versions_request() -> None:
    asked_versions: list[int] = []

    def script(peer: Peer) -> None:
        asked = peer.request()
        asked_versions.append(asked.api_version)
        peer.send(frame_of(asked, versions_response(ErrorCode.unsupported_version), 0))
        asked = peer.request()
        asked_versions.append(asked.api_version)
        peer.respond(asked, versions_response(ErrorCode.none))

    with scripted(script) as address, connect(address) as connection:
        assert asked_versions == [3, 0]
        assert connection.version_of(QUESTION.__api_key__) == 12
        assert connection.feature("transaction.version") == 0


def test_an_api_that_the_broker_does_not_support_is_named() -> None:
    with (
        scripted(Peer.greet) as address,
        connect(address) as connection,
        pytest.raises(SettingsError, match="does not serve Vote"),
    ):
        connection.send(VoteRequest(cluster_id=None, topics=()))


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"\x7f\xff\xff\xff", "a response claims 2147483647 bytes"),
        (b"\xff\xff\xff\xff", "a response claims -1 bytes"),
        (b"\0\0\0\0", "shorter than a response header"),
        (b"\0\0\0\x05\0\0\0\x63\0", "response 99 where 1 was expected"),
        (b"\0\0\0\x05\0\0\0\x01\0", "end inside a varint"),
        (b"HTTP/1.1 400 Bad Request\r\n", "a response claims 1213486160 bytes"),
        (b"\0\0", "it closed the connection"),
    ],
)
def test_an_invalid_response_closes_the_connection(reply: bytes, reason: str) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.request()
        peer.send(reply)

    with scripted(script) as address, connect(address) as connection:
        with pytest.raises(Unreachable, match=reason):
            connection.ask(QUESTION)
        assert not connection.is_open


def test_after_a_request_without_a_response_the_connection_is_not_used_again() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.request()
        peer.request()

    with scripted(script) as address, connect(address) as connection:
        with pytest.raises(TimedOut, match=f"no response from {address}"):
            connection.ask(QUESTION, 0.05)
        assert not connection.is_open


def test_a_server_that_accepts_but_does_not_respond_is_an_error_in_time() -> None:
    started_at_s = time.monotonic()

    def script(peer: Peer) -> None:
        peer.request()
        peer.request()

    with scripted(script) as address, pytest.raises(TimedOut):
        connect(address, 0.2)
    assert time.monotonic() - started_at_s < 20


def test_an_address_that_does_not_exist_is_reported() -> None:
    with pytest.raises(Unreachable, match=r"cannot connect to no-such-host\.invalid:9092"):
        connect("no-such-host.invalid")
