"""Fetch over the wire: records, limits, waiting, sessions."""

import asyncio
import dataclasses
import threading

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.request import FetchRequest
from tests.broker.handlers.log_requests import LEADER, append, batch, fetch, fetch_request, topic_id, values_in
from tests.broker.handlers.wire import Wire
from tests.storage.compaction.cleaning import clean, keyed

from catchment.ports.disk import File
from catchment.ports.memory_disk import MemoryDisk, MemoryFile
from catchment.storage.log import Log
from catchment.storage.segments.lookup import FileRange
from catchment.testing.embedded import Broker

LONG_WAIT_MS = 60_000


@pytest.fixture
def filled(broker: Broker, wire: Wire) -> None:
    """Topic `a` with three batches of two records in each of two partitions."""
    broker.create_topic("a", 2)
    for number in range(2):
        for first in range(0, 6, 2):
            append(wire, "a", batch(b"%d" % first, b"%d" % (first + 1)), partition=number)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("version", range(4, 19))
def test_the_bytes_come_from_the_batch_with_the_offset_on(wire: Wire, version: int) -> None:
    key = topic_id(wire, "a") if version >= 13 else "a"
    found = fetch(wire, fetch_request(key, (0, 3)), version)
    assert found.values() == [b"2", b"3", b"4", b"5"]
    answer = found.partitions[0][1]
    assert (answer.high_watermark, answer.last_stable_offset) == (6, 6)


@pytest.mark.usefixtures("filled")
def test_the_end_is_empty_and_beyond_it_is_out_of_range(wire: Wire) -> None:
    at_end, beyond, before = (
        fetch(wire, fetch_request("a", (0, offset)), 12).partitions[0][1] for offset in (6, 7, -1)
    )
    assert (at_end.error_code, at_end.records) == (ErrorCode.none, b"")
    assert beyond.error_code is ErrorCode.offset_out_of_range
    assert before.error_code is ErrorCode.offset_out_of_range


@pytest.mark.usefixtures("filled")
def test_the_first_batch_comes_whole_whatever_the_limits_are(wire: Wire) -> None:
    found = fetch(wire, fetch_request("a", (0, 0), (1, 0), max_bytes=1, partition_max_bytes=1), 12)
    assert found.values(0) == [b"0", b"1"]
    assert dict(found.partitions)[1].records == b""


@pytest.mark.usefixtures("filled")
def test_the_limit_of_a_partition_is_kept(wire: Wire) -> None:
    one = len(batch(b"0", b"1"))
    found = fetch(wire, fetch_request("a", (0, 0), (1, 0), partition_max_bytes=one), 12)
    assert found.values(0) == [b"0", b"1"]
    assert found.values(1) == [b"0", b"1"]


def test_unknown_topics_get_different_codes_by_name_and_by_id(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    by_name = fetch(wire, fetch_request("nowhere", (0, 0)), 12).partitions[0][1]
    assert by_name.error_code is ErrorCode.unknown_topic_or_partition
    known = topic_id(wire, "a")
    unknown = type(known)(int=known.int ^ 1)
    assert fetch(wire, fetch_request(unknown, (0, 0)), 18).partitions[0][1].error_code is ErrorCode.unknown_topic_id


@pytest.mark.usefixtures("filled")
def test_another_leader_epoch_is_fenced(broker: Broker, wire: Wire) -> None:
    broker.restart()
    with Wire(broker) as again:
        old = fetch(again, fetch_request("a", (0, 0), leader_epoch=0), 12).partitions[0][1]
        new = fetch(again, fetch_request("a", (0, 0), leader_epoch=9), 12).partitions[0][1]
        right = fetch(again, fetch_request("a", (0, 0), leader_epoch=1), 12).partitions[0][1]
    assert old.error_code is ErrorCode.fenced_leader_epoch
    assert new.error_code is ErrorCode.unknown_leader_epoch
    assert right.error_code is ErrorCode.none


def test_a_waiting_fetch_is_answered_by_the_next_append(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    waiting = threading.Event()

    def write() -> None:
        waiting.wait(30)
        with Wire(broker) as other:
            append(other, "a", batch(b"late"), partition=1, acks=LEADER)

    writer = threading.Thread(target=write)
    writer.start()
    wire.send(fetch_request("a", (0, 0), (1, 0), max_wait_ms=LONG_WAIT_MS), 12)
    waiting.set()
    answer = wire.receive()
    writer.join()
    records = {each.partition_index: each.records for topic in answer.responses for each in topic.partitions}
    assert records[0] == b""
    assert len(records[1]) == len(batch(b"late"))


def test_a_fetch_waits_for_as_many_bytes_as_it_asked_for(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    size = len(batch(b"x"))
    wire.send(fetch_request("a", (0, 0), max_wait_ms=LONG_WAIT_MS, min_bytes=3 * size), 12)
    with Wire(broker) as other:
        for _ in range(3):
            append(other, "a", batch(b"x"), acks=LEADER)
    answer = wire.receive()
    assert len(answer.responses[0].partitions[0].records) == 3 * size


def test_a_fetch_that_finds_nothing_ends_when_its_time_is_over(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    found = fetch(wire, fetch_request("a", (0, 0), max_wait_ms=10), 12)
    assert found.partitions[0][1].records == b""


def test_a_waiting_fetch_ends_with_the_deletion_of_its_topic(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    wire.send(fetch_request("a", (0, 0), max_wait_ms=LONG_WAIT_MS), 12)
    broker.delete_topic("a")
    answer = wire.receive()
    assert answer.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition


def _two_topics(first: str, second: str, *, max_wait_ms: int) -> FetchRequest:
    one, other = (fetch_request(name, (0, 0), max_wait_ms=max_wait_ms) for name in (first, second))
    return dataclasses.replace(one, topics=one.topics + other.topics)


def test_an_unknown_topic_among_live_ones_does_not_end_the_wait(broker: Broker, wire: Wire) -> None:
    """Kafka waits too: a consumer of a deleted topic would otherwise retry at once, thousands of times a second."""
    broker.create_topic("a")
    wire.send(_two_topics("deleted", "a", max_wait_ms=LONG_WAIT_MS), 12)
    with Wire(broker) as other:
        append(other, "a", batch(b"late"), acks=LEADER)
    answers = {each.topic: each.partitions[0] for each in wire.receive().responses}
    assert answers["deleted"].error_code is ErrorCode.unknown_topic_or_partition
    assert values_in(answers["a"].records) == [b"late"]


def test_a_fetch_of_unknown_topics_alone_has_nothing_to_wait_for(wire: Wire) -> None:
    found = wire.ask(_two_topics("deleted", "missing", max_wait_ms=LONG_WAIT_MS), 12)
    codes = [each.partitions[0].error_code for each in found.responses]
    assert codes == [ErrorCode.unknown_topic_or_partition] * 2


def test_any_other_error_ends_the_wait(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a", 2)
    request = fetch_request("a", (0, 0), (1, 5), max_wait_ms=LONG_WAIT_MS)
    answers = wire.ask(request, 12).responses[0].partitions
    assert [each.error_code for each in answers] == [ErrorCode.none, ErrorCode.offset_out_of_range]


def test_a_topic_deleted_during_the_wait_ends_it_though_others_live(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    broker.create_topic("b")
    wire.send(_two_topics("a", "b", max_wait_ms=LONG_WAIT_MS), 12)
    broker.delete_topic("a")
    answers = {each.topic: each.partitions[0].error_code for each in wire.receive().responses}
    assert answers == {"a": ErrorCode.unknown_topic_or_partition, "b": ErrorCode.none}


def test_a_session_remembers_that_a_deleted_topic_was_there(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    identity = topic_id(wire, "a")
    session_id = fetch(wire, fetch_request(identity, (0, 0), session=(0, 0))).session_id
    broker.delete_topic("a")
    later = fetch(wire, fetch_request(None, session=(session_id, 1)))
    assert later.partitions[0][1].error_code is ErrorCode.unknown_topic_or_partition
    unknown = fetch(wire, fetch_request(identity, (0, 0)))
    assert unknown.partitions[0][1].error_code is ErrorCode.unknown_topic_id


@pytest.mark.usefixtures("filled")
def test_an_incremental_fetch_returns_only_changes(wire: Wire) -> None:
    first = fetch(wire, fetch_request("a", (0, 0), (1, 6), session=(0, 0)), 12)
    assert first.session_id > 0
    assert [number for number, _ in first.partitions] == [0, 1]
    second = fetch(wire, fetch_request("a", (0, 6), session=(first.session_id, 1)), 12)
    assert second.partitions == []
    append(wire, "a", batch(b"new"), partition=1)
    third = fetch(wire, fetch_request("a", session=(first.session_id, 2)), 12)
    assert [number for number, _ in third.partitions] == [1]
    assert third.values(1) == [b"new"]


@pytest.mark.usefixtures("filled")
def test_a_session_forgets_partitions_on_request(wire: Wire) -> None:
    session_id = fetch(wire, fetch_request("a", (0, 6), (1, 6), session=(0, 0)), 12).session_id
    append(wire, "a", batch(b"new"), partition=1)
    request = fetch_request("a", session=(session_id, 1), forgotten=(1,))
    assert fetch(wire, request, 12).partitions == []


@pytest.mark.usefixtures("filled")
def test_a_session_that_is_unknown_or_out_of_step_is_rejected(wire: Wire) -> None:
    session_id = fetch(wire, fetch_request("a", (0, 0), session=(0, 0)), 12).session_id
    assert fetch(wire, fetch_request("a", session=(session_id, 7)), 12).error is ErrorCode.invalid_fetch_session_epoch
    unknown = fetch(wire, fetch_request("a", session=(session_id + 1, 1)), 12)
    assert unknown.error is ErrorCode.fetch_session_id_not_found


@pytest.mark.usefixtures("filled")
def test_a_session_cannot_switch_between_names_and_ids(wire: Wire) -> None:
    named = fetch(wire, fetch_request("a", (0, 0), session=(0, 0)), 12).session_id
    identity = topic_id(wire, "a")
    with_id = fetch(wire, fetch_request(identity, (0, 0), session=(named, 1)))
    assert with_id.error is ErrorCode.fetch_session_topic_id_error
    identified = fetch(wire, fetch_request(identity, (0, 0), session=(0, 0))).session_id
    with_name = fetch(wire, fetch_request("a", session=(identified, 1)), 12)
    assert with_name.error is ErrorCode.fetch_session_topic_id_error


@pytest.mark.usefixtures("filled")
def test_a_final_request_ends_its_session(wire: Wire) -> None:
    session_id = fetch(wire, fetch_request("a", (0, 0), session=(0, 0)), 12).session_id
    assert fetch(wire, fetch_request("a", session=(session_id, -1)), 12).session_id == 0
    again = fetch(wire, fetch_request("a", session=(session_id, 1)), 12)
    assert again.error is ErrorCode.fetch_session_id_not_found


@pytest.mark.usefixtures("filled")
def test_read_committed_consumers_get_a_list_of_aborted_transactions(wire: Wire) -> None:
    answer = fetch(wire, fetch_request("a", (0, 0), isolation_level=1), 12).partitions[0][1]
    assert answer.aborted_transactions == ()
    assert fetch(wire, fetch_request("a", (0, 0)), 12).partitions[0][1].aborted_transactions is None


def test_a_fetch_of_cold_data_blocks_no_other_client(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = threading.Event()

    async def read_later(disk: MemoryDisk, file: File, position: int, size: int) -> bytes:
        await asyncio.get_running_loop().run_in_executor(None, warm.wait, 30)
        return file.read(position, size)

    monkeypatch.setattr(MemoryFile, "would_block", lambda file, position, size: True)
    monkeypatch.setattr(MemoryDisk, "read_later", read_later)
    broker.create_topic("a")
    with Wire(broker) as writer:
        append(writer, "a", batch(b"cold"))
        wire.send(fetch_request("a", (0, 0)), 12)
        assert append(writer, "a", batch(b"meanwhile")).base_offset == 1
        warm.set()
        assert wire.receive().responses[0].partitions[0].records


@pytest.mark.usefixtures("filled")
def test_a_partition_that_another_connection_takes_out_of_the_session_is_still_answered(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = fetch(wire, fetch_request("a", (0, 6), (1, 6), session=(0, 0)), 12).session_id
    reading, warm = threading.Event(), threading.Event()

    async def read_later(disk: MemoryDisk, file: File, position: int, size: int) -> bytes:
        reading.set()
        await asyncio.get_running_loop().run_in_executor(None, warm.wait, 30)
        return file.read(position, size)

    monkeypatch.setattr(MemoryFile, "would_block", lambda file, position, size: True)
    monkeypatch.setattr(MemoryDisk, "read_later", read_later)
    with Wire(broker) as other:
        wire.send(fetch_request("a", (0, 0), session=(session_id, 1)), 12)
        assert reading.wait(30)
        forgetful = fetch(other, fetch_request("a", session=(session_id, 2), forgotten=(0,)), 12)
        assert forgetful.error is ErrorCode.none
        warm.set()
        answer = wire.receive()
        assert values_in(answer.responses[0].partitions[0].records) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        left = fetch(other, fetch_request("a", (1, 0), session=(session_id, 3)), 12)
        assert [number for number, _ in left.partitions] == [1]


@pytest.mark.usefixtures("filled")
def test_a_disk_error_is_reported_and_the_connection_stays_open(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: MemoryFile, position: int, size: int) -> bytes:
        raise OSError("the device is gone")

    with monkeypatch.context() as broken:
        broken.setattr(MemoryFile, "read", fail)
        # An offset within a batch is looked for in the log, its first one need not be.
        codes = [fetch(wire, fetch_request("a", (0, offset)), 12).partitions[0][1].error_code for offset in (0, 3)]
    assert codes == [ErrorCode.kafka_storage_error] * 2
    assert fetch(wire, fetch_request("a", (0, 4)), 12).values() == [b"4", b"5"]


def test_a_file_that_is_compacted_away_during_a_cold_read_is_located_again(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first partition is read, the second loses the file that its range lies in."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "segment.bytes": 1 << 20}
    broker.create_topic("a", 2, settings=settings)
    append(wire, "a", keyed((b"key", b"first"), timestamp_ms=0).tobytes())
    for value in (b"old" * 100, b"older", b"kept"):
        append(wire, "a", keyed((b"key", value), timestamp_ms=0).tobytes(), partition=1)
    logs: dict[int, Log] = {}
    locate = Log.locate

    def note(log: Log, *arguments: int, at_least_one_batch: bool = True) -> FileRange | None:
        logs[log.partition] = log
        return locate(log, *arguments, at_least_one_batch=at_least_one_batch)

    async def read_later(disk: MemoryDisk, file: File, position: int, size: int) -> bytes:
        data = file.read(position, size)
        if file.path.startswith(logs[0].directory):
            logs[1].roll()
            assert clean(disk, logs[1]) == 3
        await asyncio.sleep(0)
        return data

    monkeypatch.setattr(Log, "locate", note)
    monkeypatch.setattr(MemoryFile, "would_block", lambda file, position, size: True)
    monkeypatch.setattr(MemoryDisk, "read_later", read_later)
    found = fetch(wire, fetch_request("a", (0, 0), (1, 0)), 12)
    assert found.values(0) == [b"first"]
    assert found.values(1) == [b"kept"]


def test_records_that_retention_removes_during_a_cold_read_are_out_of_range(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("a", 2)
    append(wire, "a", batch(b"first"))
    append(wire, "a", batch(b"gone"), partition=1)
    logs: dict[int, Log] = {}
    locate = Log.locate

    def note(log: Log, *arguments: int, at_least_one_batch: bool = True) -> FileRange | None:
        logs[log.partition] = log
        return locate(log, *arguments, at_least_one_batch=at_least_one_batch)

    async def read_later(disk: MemoryDisk, file: File, position: int, size: int) -> bytes:
        data = file.read(position, size)
        logs[1].roll()
        logs[1].advance_log_start(1)
        await asyncio.sleep(0)
        return data

    monkeypatch.setattr(Log, "locate", note)
    monkeypatch.setattr(MemoryFile, "would_block", lambda file, position, size: True)
    monkeypatch.setattr(MemoryDisk, "read_later", read_later)
    found = dict(fetch(wire, fetch_request("a", (0, 0), (1, 0)), 12).partitions)
    assert found[0].error_code is ErrorCode.none
    assert found[1].error_code is ErrorCode.offset_out_of_range
