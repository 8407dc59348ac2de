"""InitProducerId over the wire."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import i16, i32Timedelta
from tests.broker.handlers.transaction_requests import NO_PRODUCER, TransactionWire
from tests.broker.handlers.wire import Wire

from catchment.cluster.local_store import DIRECTORY_NAME
from catchment.testing.embedded import Broker


def init(
    wire: Wire, version: int = 5, transactional_id: str | None = None, producer: tuple[int, int] = (-1, -1)
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        transactional_id=None if transactional_id is None else TransactionalId(transactional_id),
        transaction_timeout=i32Timedelta.parse(timedelta(seconds=60)),
        producer_id=ProducerId(producer[0]),
        producer_epoch=i16(producer[1]),
    )
    response = wire.ask(request, version)
    assert isinstance(response, InitProducerIdResponse)
    return response


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own_with_epoch_0(wire: Wire, version: int) -> None:
    responses = [init(wire, version) for _ in range(3)]
    assert [(response.error_code, response.producer_epoch) for response in responses] == [(ErrorCode.none, 0)] * 3
    assert len({response.producer_id for response in responses}) == 3


def test_a_producer_that_has_an_id_gets_a_new_one(wire: Wire) -> None:
    first = init(wire)
    again = init(wire, producer=(first.producer_id, first.producer_epoch))
    assert again.producer_id != first.producer_id
    assert (again.error_code, again.producer_epoch) == (ErrorCode.none, 0)


def test_an_id_is_not_given_again_after_a_kill(broker: Broker) -> None:
    given = []
    for _ in range(3):
        with Wire(broker) as wire:
            given += [init(wire).producer_id for _ in range(2)]
        broker.kill()
        broker.start()
    assert len(set(given)) == 6


@pytest.mark.parametrize("producer", [(5, -1), (-1, 5)])
def test_an_id_without_its_epoch_or_the_reverse_is_rejected(wire: Wire, producer: tuple[int, int]) -> None:
    assert init(wire, producer=producer).error_code is ErrorCode.invalid_request


def test_an_empty_transactional_id_is_rejected(wire: Wire) -> None:
    assert TransactionWire(wire, "").init()[0] is ErrorCode.invalid_request


def test_a_transactional_producer_takes_over_from_the_one_before(wire: Wire) -> None:
    transactions = TransactionWire(wire)
    first = transactions.begin()
    assert first.epoch == 0
    assert transactions.init() == (ErrorCode.none, first._replace(epoch=1))


def test_a_fenced_producer_gets_the_code_of_its_version(wire: Wire) -> None:
    transactions = TransactionWire(wire)
    old = transactions.begin()
    transactions.begin()
    assert transactions.init(old, 3) == (ErrorCode.invalid_producer_epoch, NO_PRODUCER)
    assert transactions.init(old, 4) == (ErrorCode.producer_fenced, NO_PRODUCER)


def test_a_timeout_above_the_brokers_is_rejected() -> None:
    with Broker(settings={"transaction.max.timeout.ms": 5000}) as broker, Wire(broker) as wire:
        transactions = TransactionWire(wire)
        assert transactions.init(timeout_ms=5001)[0] is ErrorCode.invalid_transaction_timeout
        assert transactions.init(timeout_ms=5000)[0] is ErrorCode.none


def test_producer_and_epoch_survive_a_kill(broker: Broker) -> None:
    with Wire(broker) as wire:
        first = TransactionWire(wire).begin()
    broker.kill()
    broker.start()
    with Wire(broker) as wire:
        assert TransactionWire(wire).begin() == first._replace(epoch=1)


def test_what_a_former_instance_left_open_is_aborted_first(broker: Broker, wire: Wire) -> None:
    broker.create_topic("t")
    transactions = TransactionWire(wire)
    old = transactions.begin()
    transactions.add(old, {"t": [0]})
    assert transactions.init()[0] is ErrorCode.concurrent_transactions
    assert transactions.begin() == old._replace(epoch=2)
    assert transactions.end(old, 3)[0] is ErrorCode.producer_fenced


def test_the_ids_in_transactions_that_were_found_on_disk_are_not_given_again(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Wire(broker) as wire:
        first = TransactionWire(wire, "first").begin()
    shutil.rmtree(tmp_path / DIRECTORY_NAME)
    with Broker(tmp_path) as broker, Wire(broker) as wire:
        assert TransactionWire(wire, "first").begin() == first._replace(epoch=1)
        assert TransactionWire(wire, "second").begin().producer_id > first.producer_id
