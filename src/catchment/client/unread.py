"""Fetched records that nobody has got yet: decoded one fetch at a time, and kept until they are handed out."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import pyarrow

from catchment.client.feed import Fetched


class Read(NamedTuple):
    """Some rows of one partition; reading goes on at `next_offset`."""

    topic: str
    partition: int
    batch: pyarrow.RecordBatch
    next_offset: int


class Unread:
    """What was fetched, in its order."""

    def __init__(self, columns: tuple[str, ...], *, validate_crc: bool) -> None:
        self._columns = columns
        self._validate_crc = validate_crc
        self._fetched: deque[tuple[Fetched, int | None]] = deque()

    def __len__(self) -> int:
        return len(self._fetched)

    def add(self, fetched: Fetched, end_offset: int | None) -> None:
        """Keep a fetch, of which rows up to `end_offset` are wanted."""
        self._fetched.append((fetched, end_offset))

    def take(self) -> Read:
        """The rows of the first fetch, or some of them if its records unpack to a lot; there may be none for us."""
        # Loading Numba takes longer than most plans do, and processes that only plan read nothing.
        from catchment.client.decoding import decode

        fetched, end_offset = self._fetched[0]
        topic, partition = fetched.place
        decoded = decode(
            fetched.records,
            self._columns,
            topic=topic,
            partition=partition,
            start_offset=fetched.start_offset,
            end_offset=end_offset,
            aborted=fetched.aborted,
            validate_crc=self._validate_crc,
        )
        if fetched.start_offset < decoded.next_offset < fetched.next_offset:
            self._fetched[0] = fetched._replace(start_offset=decoded.next_offset), end_offset
        else:
            self._fetched.popleft()
        return Read(topic, partition, decoded.batch, decoded.next_offset)
