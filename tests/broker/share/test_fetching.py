"""ShareFetch of a partition: which batches are delivered, and how much is read and acquired."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.log_requests import values_in
from tests.broker.share.led_partition import Keeper, Led

from catchment.broker.share.fetching import FetchedRecords, Reader, take
from catchment.broker.share.in_flight import AcquiredRecords, FetchLimits
from catchment.ports.memory_disk import MemoryFile
from catchment.protocol.errors import ApiError
from catchment.storage.control_record import TransactionMarker, encode_marker

READER = Reader("member", FetchLimits(max_records=500, batch_size=500), max_bytes=1 << 20, reads_committed=False)
COMMITTED = READER._replace(reads_committed=True)


async def taken(led: Led, reader: Reader = READER) -> FetchedRecords:
    services: Any = SimpleNamespace(disk=led.disk)
    return await take(services, led.leader, reader)


async def started(led: Led) -> Led:
    await led.load()
    return led


def append_transaction(led: Led, producer_id: int, *values: bytes, sequence: int = 0) -> None:
    led.append(*values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def end_transaction(led: Led, producer_id: int, *, is_commit: bool) -> None:
    marker = encode_marker(TransactionMarker(is_commit, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=0)
    led.partition.append(memoryview(marker), 1, is_from_client=False)


async def test_control_batches_are_skipped() -> None:
    led = await started(Led())
    append_transaction(led, 7, b"0", b"1")
    end_transaction(led, 7, is_commit=True)
    led.append(b"3")
    assert (await taken(led)).acquired == [AcquiredRecords(0, 1, 1), AcquiredRecords(3, 3, 1)]


async def test_aborted_records_are_delivered_with_read_uncommitted_only() -> None:
    for reader, offsets in ((READER, [(0, 2), (4, 4)]), (COMMITTED, [(1, 1), (4, 4)])):
        led = await started(Led())
        append_transaction(led, 7, b"0")
        led.append(b"1")
        append_transaction(led, 7, b"2", sequence=1)
        end_transaction(led, 7, is_commit=False)
        append_transaction(led, 7, b"4", sequence=2)
        end_transaction(led, 7, is_commit=True)
        found = await taken(led, reader)
        assert [(first, last) for first, last, _ in found.acquired] == offsets


async def test_a_fetch_inside_an_aborted_transaction_returns_nothing_of_it() -> None:
    led = await started(Led(Keeper(1)))
    append_transaction(led, 7, b"0", b"1")
    end_transaction(led, 7, is_commit=False)
    led.append(b"3")
    assert (await taken(led, COMMITTED)).acquired == [AcquiredRecords(3, 3, 1)]


async def test_open_transactions_block_readers_of_committed_data() -> None:
    led = await started(Led())
    led.append(b"0")
    append_transaction(led, 7, b"1")
    led.append(b"2")
    assert (await taken(led, COMMITTED)).acquired == [AcquiredRecords(0, 0, 1)]


async def test_a_log_of_aborted_records_is_read_to_its_end() -> None:
    led = await started(Led())
    append_transaction(led, 7, b"0", b"1")
    end_transaction(led, 7, is_commit=False)
    assert (await taken(led, COMMITTED)).acquired == ()


async def test_the_bytes_begin_and_end_with_acquired_records() -> None:
    led = await started(Led())
    for first in range(0, 6, 2):
        led.append(b"%d" % first, b"%d" % (first + 1))
    records = led.leader.records
    assert records is not None
    exact = READER._replace(limits=FetchLimits(3, 500, is_exact=True))
    found = await taken(led, exact)
    assert found.acquired == [AcquiredRecords(0, 2, 1)]
    assert values_in(bytes(found.records)) == [b"0", b"1", b"2", b"3"]


async def test_the_bytes_read_are_proportional_to_the_requested_records() -> None:
    led = await started(Led())
    for _ in range(100):
        led.append(b"x" * 1000)
    found = await taken(led, READER._replace(limits=FetchLimits(2, 500)))
    assert found.acquired == [AcquiredRecords(0, 1, 1)]
    assert isinstance(found.records, memoryview)
    assert memoryview(found.records.obj).nbytes < 10_000


async def test_a_batch_larger_than_the_limit_is_returned_whole() -> None:
    led = await started(Led())
    led.append(b"x" * 5000)
    found = await taken(led, READER._replace(max_bytes=100))
    assert values_in(bytes(found.records)) == [b"x" * 5000]


async def test_cold_data_is_read_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    led = await started(Led())
    led.append(b"cold")
    monkeypatch.setattr(MemoryFile, "would_block", lambda file, position, size: True)
    later: list[int] = []
    read_later: Callable[..., Any] = led.disk.read_later

    async def note(file: MemoryFile, position: int, size: int) -> bytes:
        later.append(size)
        return bytes(await read_later(file, position, size))

    monkeypatch.setattr(led.disk, "read_later", note)
    assert (await taken(led)).acquired == [AcquiredRecords(0, 0, 1)]
    assert len(later) == 1


async def test_a_disk_error_acquires_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    led = await started(Led())
    led.append(b"0")
    with monkeypatch.context() as broken:
        broken.setattr(MemoryFile, "read", _fail)
        with pytest.raises(ApiError) as refused:
            await taken(led)
    assert refused.value.code is ErrorCode.kafka_storage_error
    assert (await taken(led)).acquired == [AcquiredRecords(0, 0, 1)]


def _fail(file: MemoryFile, position: int, size: int) -> bytes:
    raise OSError("the device is gone")
