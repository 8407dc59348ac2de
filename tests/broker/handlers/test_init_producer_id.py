"""InitProducerId over the wire."""

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import i16, i32Timedelta
from tests.broker.handlers.wire import Wire

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
def test_an_id_without_its_epoch_or_the_reverse_is_refused(wire: Wire, producer: tuple[int, int]) -> None:
    assert init(wire, producer=producer).error_code is ErrorCode.invalid_request


def test_transactional_producers_are_told_to_come_back_and_empty_ids_refused(wire: Wire) -> None:
    response = init(wire, transactional_id="t")
    assert (response.error_code, response.producer_id, response.producer_epoch) == (
        ErrorCode.coordinator_not_available,
        -1,
        -1,
    )
    assert init(wire, transactional_id="").error_code is ErrorCode.invalid_request
