"""AddPartitionsToTxn: up to version 3 one transaction from a client, since version 4 many from brokers (KIP-890)."""

from __future__ import annotations

from typing import Any

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.types import TransactionalId

from catchment.protocol.adapters.conversion import lift

_LAST_VERSION_WITH_ONE_TRANSACTION = 3


def lift_request(request: Any, newest_class: type[AddPartitionsToTxnRequest]) -> Any:
    if request.__version__ > _LAST_VERSION_WITH_ONE_TRANSACTION:
        return lift(request, newest_class)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=tuple([lift(topic, AddPartitionsToTxnTopic) for topic in request.v3_and_below_topics]),
    )
    return newest_class(transactions=(transaction,))


def lower_request(request: AddPartitionsToTxnRequest, version_class: Any) -> Any:
    if version_class.__version__ > _LAST_VERSION_WITH_ONE_TRANSACTION:
        return request
    (transaction,) = request.transactions
    return version_class(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.producer_epoch,
        v3_and_below_topics=transaction.topics,
    )


def lift_response(response: Any, newest_class: type[AddPartitionsToTxnResponse]) -> Any:
    if response.__version__ > _LAST_VERSION_WITH_ONE_TRANSACTION:
        return lift(response, newest_class)
    topics = tuple([lift(topic, AddPartitionsToTxnTopicResult) for topic in response.results_by_topic_v3_and_below])
    # An old response does not name its transaction; there was only one in the request.
    result = AddPartitionsToTxnResult(transactional_id=TransactionalId(""), topic_results=topics)
    return lift(response, newest_class, results_by_transaction=(result,))


def lower_response(response: AddPartitionsToTxnResponse, version_class: Any) -> Any:
    if version_class.__version__ > _LAST_VERSION_WITH_ONE_TRANSACTION:
        return response
    (result,) = response.results_by_transaction
    return version_class(
        throttle_time=response.throttle_time,
        results_by_topic_v3_and_below=result.topic_results,
    )
