"""Transactional batches over the wire: only what belongs to an open transaction is written, and in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.log_requests import append, batch, fetch, fetch_request, list_offset, values_in
from tests.broker.handlers.transactional_producer import V1, V2, TransactionalProducer, Versions
from tests.broker.handlers.wire import Wire
from tests.waiting import wait_until

from catchment.broker.coordinators.transactions import TransactionCoordinator
from catchment.replication.verification import Verification, WhenVerified
from catchment.testing.embedded import Broker

LATEST = -1
READ_COMMITTED = 1
DEADLINE_S = 150
BOTH = pytest.mark.parametrize("versions", [V1, V2], ids=["v1", "v2"])


@pytest.fixture
def producer(broker: Broker, wire: Wire, versions: Versions) -> TransactionalProducer:
    broker.create_topic("a", 2)
    made = TransactionalProducer(wire, versions)
    made.begin_life()
    return made


def committed(wire: Wire, partition: int = 0) -> list[bytes | None]:
    """What a READ_COMMITTED consumer gets from the beginning, aborted records included: a client filters those."""
    fetched = fetch(wire, fetch_request("a", (partition, 0), isolation_level=READ_COMMITTED), 12)
    return [value for value in fetched.values(partition) if value is not None and not value.startswith(b"\x00")]


def stable_end(wire: Wire) -> int:
    fetched = fetch(wire, fetch_request("a", (0, 0), isolation_level=READ_COMMITTED), 12)
    offset: int = dict(fetched.partitions)[0].last_stable_offset
    return offset


def until_nothing_is_open(wire: Wire) -> None:
    wait_until(lambda: stable_end(wire) >= list_offset(wire, "a", LATEST).offset, "a transaction hangs")


@BOTH
def test_records_are_readable_once_their_transaction_has_committed(wire: Wire, producer: TransactionalProducer) -> None:
    assert producer.write("a", b"x") is ErrorCode.none
    assert producer.write("a", b"y", b"z") is ErrorCode.none
    assert committed(wire) == []
    assert producer.end(is_commit=True) is ErrorCode.none
    until_nothing_is_open(wire)
    assert committed(wire) == [b"x", b"y", b"z"]


@BOTH
def test_an_aborted_transaction_is_named_to_readers(wire: Wire, producer: TransactionalProducer) -> None:
    producer.write("a", b"x")
    assert producer.end(is_commit=False) is ErrorCode.none
    until_nothing_is_open(wire)
    fetched = fetch(wire, fetch_request("a", (0, 0), isolation_level=READ_COMMITTED), 12)
    (aborted,) = dict(fetched.partitions)[0].aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (producer.producer_id, 0)


@BOTH
def test_a_waiting_reader_of_committed_data_wakes_when_the_transaction_ends(
    broker: Broker, producer: TransactionalProducer
) -> None:
    producer.write("a", b"x")
    with Wire(broker) as reader:
        reader.send(fetch_request("a", (0, 0), isolation_level=READ_COMMITTED, max_wait_ms=DEADLINE_S * 1000), 12)
        producer.end(is_commit=True)
        (topic,) = reader.receive().responses
        assert values_in(topic.partitions[0].records)[0] == b"x"


@BOTH
def test_the_latest_offset_for_a_read_committed_consumer_is_the_last_stable_one(
    wire: Wire, producer: TransactionalProducer
) -> None:
    producer.write("a", b"x")
    assert list_offset(wire, "a", LATEST).offset == 1
    assert list_offset(wire, "a", LATEST, isolation_level=READ_COMMITTED).offset == 0
    assert list_offset(wire, "a", 0, isolation_level=READ_COMMITTED).offset == -1
    producer.end(is_commit=True)
    until_nothing_is_open(wire)
    assert list_offset(wire, "a", LATEST, isolation_level=READ_COMMITTED).offset == 2
    assert list_offset(wire, "a", 0, isolation_level=READ_COMMITTED).offset == 0


@BOTH
def test_many_transactions_in_a_row_need_no_pause(wire: Wire, producer: TransactionalProducer) -> None:
    values = [b"%d" % number for number in range(10)]
    for value in values:
        assert producer.write("a", value) is ErrorCode.none
        assert producer.end(is_commit=True) is ErrorCode.none
    until_nothing_is_open(wire)
    assert committed(wire) == values


@pytest.mark.parametrize("versions", [Versions(version, 4, 4) for version in (3, 8, 10)])
def test_an_old_client_that_did_not_add_the_partition_gets_the_code_of_its_version(
    producer: TransactionalProducer,
) -> None:
    producer.add("a", 1)
    assert producer.append("a", b"x") is ErrorCode.invalid_txn_state
    assert producer.append("a", b"x", partition=1) is ErrorCode.none


@pytest.mark.parametrize("versions", [V1], ids=["v1"])
def test_a_partition_that_was_not_added_aborts_the_transaction(producer: TransactionalProducer) -> None:
    producer.add("a", 1)
    assert producer.append("a", b"x") is ErrorCode.transaction_abortable


def test_without_verification_a_partition_need_not_have_been_added() -> None:
    with Broker(settings={"transaction.partition.verification.enable": False}) as broker, Wire(broker) as wire:
        broker.create_topic("a")
        producer = TransactionalProducer(wire, V1)
        producer.begin_life()
        assert producer.append("a", b"x") is ErrorCode.none


@BOTH
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_batch_that_comes_after_the_end_of_its_transaction_is_rejected_and_nothing_hangs(
    wire: Wire, producer: TransactionalProducer, is_commit: bool
) -> None:
    epoch = producer.epoch
    producer.write("a", b"in time")
    producer.end(is_commit=is_commit)
    until_nothing_is_open(wire)
    late = producer.append("a", b"late", sequence=1, epoch=epoch)
    assert late in (ErrorCode.transaction_abortable, ErrorCode.invalid_producer_epoch, ErrorCode.not_enough_replicas)
    elsewhere = producer.append("a", b"late", partition=1, epoch=epoch)
    assert elsewhere is not ErrorCode.none
    until_nothing_is_open(wire)


@pytest.mark.parametrize("versions", [V1], ids=["v1"])
def test_a_late_copy_of_a_written_batch_does_not_hold_up_the_next_transaction(
    wire: Wire, producer: TransactionalProducer
) -> None:
    producer.write("a", b"x")
    producer.end(is_commit=False)
    until_nothing_is_open(wire)
    assert producer.append("a", b"x", sequence=0) is not ErrorCode.none
    assert producer.write("a", b"y") is ErrorCode.none


@BOTH
def test_a_fenced_producer_writes_nothing(wire: Wire, producer: TransactionalProducer) -> None:
    producer.write("a", b"x")
    successor = TransactionalProducer(wire, producer.versions)
    successor.begin_life()
    assert producer.append("a", b"zombie", sequence=1) is ErrorCode.invalid_producer_epoch
    assert producer.append("a", b"zombie", partition=1) is ErrorCode.invalid_producer_epoch
    until_nothing_is_open(wire)


@BOTH
def test_a_duplicate_inside_a_transaction_is_answered_once_more(wire: Wire, producer: TransactionalProducer) -> None:
    producer.write("a", b"x")
    assert producer.append("a", b"x", sequence=0) is ErrorCode.none
    producer.end(is_commit=True)
    until_nothing_is_open(wire)
    assert committed(wire) == [b"x"]


@pytest.mark.parametrize("versions", [V2], ids=["v2"])
def test_a_producer_that_the_partition_does_not_know_must_begin_at_zero(producer: TransactionalProducer) -> None:
    assert producer.append("a", b"second", sequence=1) is ErrorCode.out_of_order_sequence_number
    assert producer.append("a", b"first", sequence=0) is ErrorCode.none


@BOTH
def test_after_a_first_batch_was_rejected_a_later_one_does_not_take_its_place(producer: TransactionalProducer) -> None:
    if producer.versions.adds:
        producer.add("a")
    too_large = b"x" * 2_000_000
    assert producer.append("a", too_large, sequence=0) is ErrorCode.message_too_large
    assert producer.append("a", b"second", sequence=1) is ErrorCode.out_of_order_sequence_number
    assert producer.append("a", b"first", sequence=0) is ErrorCode.none


def test_a_transactional_batch_needs_a_transactional_id(broker: Broker, wire: Wire) -> None:
    broker.create_topic("a")
    records = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert append(wire, "a", records).error_code is ErrorCode.transactional_id_authorization_failed
    assert list_offset(wire, "a", LATEST).offset == 0


@BOTH
def test_batches_sent_without_waiting_keep_their_order_while_the_first_is_verified(
    wire: Wire, producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(monkeypatch, until_all_wait(monkeypatch, 5))
    if producer.versions.adds:
        producer.add("a")
    for number in range(5):
        request = producer.produce_request("a", b"%d" % number * 60_000, sequence=number)
        wire.send(request, producer.versions.produce)
    answers = [wire.receive().responses[0].partition_responses[0] for _ in range(5)]
    assert [answer.error_code for answer in answers] == [ErrorCode.none] * 5
    assert [answer.base_offset for answer in answers] == list(range(5))
    producer.end(is_commit=True)
    until_nothing_is_open(wire)
    assert committed(wire) == [b"%d" % number * 60_000 for number in range(5)]


@BOTH
def test_a_marker_that_comes_while_the_coordinator_is_asked_makes_the_response_worthless(
    broker: Broker, wire: Wire, producer: TransactionalProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if producer.versions.adds:
        producer.add("a")
    with Wire(broker) as other:
        ending = TransactionalProducer(other, V1)
        ending.producer_id, ending.epoch = producer.producer_id, producer.epoch

        async def abort_meanwhile() -> None:
            await asyncio.get_running_loop().run_in_executor(None, lambda: ending.end(is_commit=False))
            await asyncio.get_running_loop().run_in_executor(None, lambda: until_marked(other))

        slow_down(monkeypatch, abort_meanwhile)
        assert producer.append("a", b"late") in (ErrorCode.invalid_txn_state, ErrorCode.invalid_producer_epoch)
        until_nothing_is_open(other)
    assert committed(wire) == []


def until_marked(wire: Wire) -> None:
    """Wait for the marker that ends the transaction."""
    wait_until(lambda: list_offset(wire, "a", LATEST).offset > 0, "no marker was written")


def until_all_wait(monkeypatch: pytest.MonkeyPatch, count: int) -> Callable[[], Awaitable[None]]:
    """What waits until so many batches wait for the coordinator's answer."""
    waiting: list[int] = []
    all_wait = asyncio.Event()
    wait = Verification.wait

    def count_and_wait(self: Verification, sequence: int, then: WhenVerified) -> bool:
        waiting.append(sequence)
        if len(waiting) == count:
            all_wait.set()
        return wait(self, sequence, then)

    async def until_all_are_here() -> None:
        await all_wait.wait()

    monkeypatch.setattr(Verification, "wait", count_and_wait)
    return until_all_are_here


def slow_down(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Let something happen between the coordinator's answer and its arrival."""
    asked = TransactionCoordinator.verify_partitions

    async def verify(
        self: TransactionCoordinator,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        adds: bool,
    ) -> dict[tuple[str, int], ErrorCode]:
        codes = await asked(self, transactional_id, producer_id, producer_epoch, partitions, adds=adds)
        await meanwhile()
        return codes

    monkeypatch.setattr(TransactionCoordinator, "verify_partitions", verify)
