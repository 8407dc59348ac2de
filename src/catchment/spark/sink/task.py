"""One task's rows into topics: acknowledged when this returns, or in a transaction that the driver will end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow
from kio.schema.errors import ErrorCode

from catchment.client.errors import BrokerError, ClientError, RecordTooLarge, SettingsError
from catchment.client.settings import DEFAULT_BATCH_BYTES
from catchment.client.topic_metadata import TopicPartition
from catchment.client.transaction_outcomes import Witness
from catchment.spark.launch.python_workers import freeze_loaded_objects
from catchment.spark.sink.commit_list import Transaction
from catchment.spark.sink.options import SinkOptions
from catchment.spark.sink.plain_producers import plain_producer
from catchment.spark.sink.rows import by_topic, pieces

if TYPE_CHECKING:
    from catchment.client.producer import Producer

_TAKEN_OVER = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch, ErrorCode.invalid_txn_state})


def write_plain(options: SinkOptions, batches: Iterable[pyarrow.RecordBatch], first_partition: int) -> None:
    """Write rows that are visible at once; each of them once, unless Spark repeats the task."""
    found = _unless_empty(pieces(batches))
    if found is None:
        return
    with plain_producer(options, lambda: _producer(options, None, first_partition)) as producer:
        for rows in found:
            _write(producer, options, rows)
    freeze_loaded_objects()


def write_in_transaction(
    options: SinkOptions,
    batches: Iterable[pyarrow.RecordBatch],
    transactional_id: str,
    spark_partition: int,
    first_partition: int,
) -> Transaction | None:
    """Write rows that are visible when their transaction is committed; None if there are no rows."""
    found = _unless_empty(pieces(batches))
    if found is None:
        return None
    row_count = 0
    end_offsets: dict[TopicPartition, int] = {}
    clock = _Clock(options.transaction_timeout_ms)
    producer = _producer(options, transactional_id, first_partition)
    with closing(producer):
        producer.begin()
        try:
            for rows in found:
                _write(producer, options, rows)
                row_count += rows.num_rows
                clock.check()
            end_offsets = {place: written.end_offset for place, written in producer.flush().items()}
            clock.check()
        except BaseException as error:
            _abort(producer)
            if isinstance(error, BrokerError) and error.code in _TAKEN_OVER:
                raise _taken_over(transactional_id) from error
            raise
        handle = producer.handle()
    freeze_loaded_objects()
    return Transaction(handle, spark_partition, row_count, _witness(options, end_offsets))


class _Clock:
    """Fails a task that takes too long, before the broker aborts its transaction."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._began_s = time.monotonic()

    def check(self) -> None:
        if (time.monotonic() - self._began_s) * 1000 >= self._timeout_ms:
            raise ClientError(
                f"the task has been writing for longer than its transaction may be open, {self._timeout_ms} ms",
                "Raise kafka.transaction.timeout.ms (and transaction.max.timeout.ms of the brokers, which bounds it), or "
                "make the batch smaller, such as by maxOffsetsPerTrigger.",
            )


def _producer(options: SinkOptions, transactional_id: str | None, first_partition: int) -> Producer:
    # Loading Numba takes longer than to end a transaction, and the process that does so writes no rows.
    from catchment.client.producer import Producer

    try:
        return Producer(
            options.connection.cluster(),
            transactional_id=transactional_id,
            transaction_timeout_ms=options.transaction_timeout_ms,
            codec=options.codec,
            level=options.level,
            max_batch_bytes=min(options.max_record_bytes, DEFAULT_BATCH_BYTES),
            max_record_bytes=options.max_record_bytes,
            delivery_timeout_s=options.delivery_timeout_ms / 1000,
            first_partition=first_partition,
        )
    except BrokerError as error:
        refused = _refused(options, error.code)
        if refused is None:
            raise
        raise refused from error


def _refused(options: SinkOptions, code: ErrorCode) -> SettingsError | None:
    """What people can do about a cluster that does not let a transaction begin; None if it is not for that."""
    if code is ErrorCode.invalid_transaction_timeout:
        return SettingsError(
            f"the brokers do not let a transaction be open for {options.transaction_timeout_ms} ms",
            "Lower kafka.transaction.timeout.ms, within which a batch must be written and committed, or raise "
            "transaction.max.timeout.ms of the brokers.",
        )
    if code is ErrorCode.transactional_id_authorization_failed:
        return SettingsError(
            f"the brokers do not let this user write in transactions of ids that begin with {options.transactional_id_prefix}",
            "Ask for the operations Write and Describe on these transactional ids, set transactionalIdPrefix to a prefix that is "
            "granted, or do without transactions: deliveryGuarantee=atLeastOnce.",
        )
    return None


def _write(producer: Producer, options: SinkOptions, rows: pyarrow.Table) -> None:
    for topic, written in by_topic(rows, options.topic):
        try:
            producer.write(topic, written)
        except RecordTooLarge as error:
            raise RecordTooLarge(
                f"a record for topic {topic} is larger than {options.max_record_bytes} bytes",
                "Raise kafka.max.request.size, and max.message.bytes of the topic with it, or store the value elsewhere.",
            ) from error


def _abort(producer: Producer) -> None:
    try:
        producer.abort()
    except ClientError:
        # What made the task fail is what people should see; the transaction ends with its time-out at the latest.
        return


def _witness(options: SinkOptions, end_offsets: dict[TopicPartition, int]) -> Witness:
    """The record that shows later whether the transaction was committed."""
    (topic, partition), end_offset = max(end_offsets.items(), key=lambda one: one[1])
    if end_offset <= 0:
        raise ClientError("the brokers did not say where they wrote the rows", "Spark runs the task again.")
    return Witness(topic, str(options.connection.cluster().topic_id(topic)), partition, end_offset - 1)


def _taken_over(transactional_id: str) -> ClientError:
    return ClientError(
        f"the transaction of {transactional_id} was ended by another process",
        "Another attempt at the same task has replaced this one. If there is none, another run of the query has the same "
        "checkpoint: stop one of them. Or a batch is written to one topic several times at once in foreachBatch: give each of "
        "these writes a sinkName of its own.",
    )


def _unless_empty(found: Iterator[pyarrow.Table]) -> Iterator[pyarrow.Table] | None:
    """The same pieces, or None if there are none: then no producer is needed."""
    first = next(found, None)
    return None if first is None else chain([first], found)
