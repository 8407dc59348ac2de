"""Which waiting requests are woken, when, and in which order."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError
from catchment.replication.waiting import WaitingReaders, WaitingWriters


async def test_writers_are_released_up_to_the_offset_and_no_further() -> None:
    writers = WaitingWriters()
    first, second, third = writers.add(10), writers.add(20), writers.add(30)
    writers.reached(20)
    assert first.done()
    assert second.done()
    assert not third.done()
    assert len(writers) == 1


async def test_a_writer_that_waits_for_an_older_offset_is_released_with_it() -> None:
    writers = WaitingWriters()
    newest = writers.add(30)
    repeated = writers.add(10)
    writers.reached(10)
    assert repeated.done()
    assert not newest.done()


async def test_a_failure_reaches_every_writer() -> None:
    writers = WaitingWriters()
    waiting = [writers.add(offset) for offset in (1, 2, 3)]
    writers.fail(ApiError(ErrorCode.kafka_storage_error))
    for each in waiting:
        with pytest.raises(ApiError):
            await each
    assert len(writers) == 0


async def test_a_cancelled_writer_does_not_affect_the_others() -> None:
    writers = WaitingWriters()
    gone, there = writers.add(1), writers.add(1)
    gone.cancel()
    writers.reached(1)
    assert there.done()
    assert not there.cancelled()


async def test_readers_are_called_on_every_change_until_they_are_removed() -> None:
    readers = WaitingReaders()
    heard: list[str] = []

    def first() -> None:
        heard.append("first")
        readers.remove(first)

    def second() -> None:
        heard.append("second")

    readers.add(first)
    readers.add(second)
    readers.notify()
    readers.notify()
    assert heard == ["first", "second", "second"]
    readers.remove(first)
    await asyncio.sleep(0)
    assert len(readers) == 1
