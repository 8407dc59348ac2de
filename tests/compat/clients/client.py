"""The interface that the tests use for every Kafka client."""

from __future__ import annotations

import abc
import gc
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import pytest

EARLIEST = -2
LATEST = -1
TIMEOUT_S = 300.0
MAX_REQUEST_BYTES = 16 * 1024 * 1024


class Record(NamedTuple):
    """A record as an application sees it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Stored(NamedTuple):
    """A record as it was read."""

    record: Record
    offset: int
    timestamp_ms: int
    is_log_append_time: bool


class Client(abc.ABC):
    """Writes to and reads from partition 0 of a topic."""

    sets_timestamps = True
    """Whether an application can give records a timestamp of its own."""
    writes_null_headers = True
    """Whether a header may be without a value."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @abc.abstractmethod
    def write(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        timestamps_ms: Sequence[int] | None = None,
    ) -> None:
        """Return once all are delivered; with acks 0, once all are sent."""

    @abc.abstractmethod
    def read(self, topic: str, count: int, *, first_offset: int = 0) -> list[Stored]:
        """So many records from an offset on."""

    @abc.abstractmethod
    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        """The first record that is no earlier, EARLIEST or LATEST; None, or the end of the log, if there is none."""


def check_is_last(topic: str, count: int, found: Sequence[object]) -> None:
    """Fail with the counts if a reader stopped early, instead of with a comparison of megabytes."""
    assert len(found) == count, f"{len(found)} of {count} records came from {topic}"


def forget_refused_sockets(caplog: pytest.LogCaptureFixture) -> None:
    """The Python clients do not close the socket of a rejected connection, and the next test would get the warning."""
    # Their log records keep a reference to the socket.
    caplog.get_records("call").clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
