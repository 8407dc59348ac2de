"""Produce the rows of Arrow columns: every row once, in order within its partition, in a transaction if wanted.

    with Producer(cluster) as producer:
        producer.write("orders", table)

One process may begin a transaction and another end it: `flush`, pass on the `handle()`, and let the other process call
`end_transaction`. Then this producer must `hand_over`, because it cannot know whether its transaction is still open.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

import pyarrow
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.types import ProducerId
from kio.static.primitive import i16, i32Timedelta

from catchment.client.cluster import Cluster
from catchment.client.columns.encoding import encode
from catchment.client.errors import ClientError, TimedOut, passes, raise_for
from catchment.client.produce.partitioning import Partitioner, highest_partition
from catchment.client.produce.queue import ProducerBatch, Written
from catchment.client.produce.sender import Sender
from catchment.client.settings import DEFAULT_BATCH_BYTES, Codec
from catchment.client.topic_metadata import TopicPartition
from catchment.client.transactions import NEWEST_PRODUCE_OF_FIRST, TransactionHandle, Transactions, end_transaction

_SPREAD_BYTES: Final = 64 * 1024 * 1024
_RESPONSE_TIMEOUT_S: Final = 40.0
"""A broker may wait 30 s for replicas."""
_METADATA_AGE_S: Final = 10.0
"""How old metadata may be: partitions that are added to a topic get rows after this time."""
_ENCODED_BATCHES: Final = 4
"""How many batches are encoded while others are in flight."""
_NO_TIMEOUT: Final = i32Timedelta.parse(timedelta(milliseconds=2**31 - 1))


class Producer:
    """An idempotent producer, or a transactional one if it has a transactional id. For one thread."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        codec: Codec = "none",
        level: int | None = None,
        max_batch_bytes: int = DEFAULT_BATCH_BYTES,
        max_record_bytes: int | None = None,
        delivery_timeout_s: float = 120.0,
        first_partition: int = 0,
    ) -> None:
        """With a transactional id, the producer takes it over: an open transaction of an earlier producer is aborted.

        Rows are sent in batches of at most `max_batch_bytes`. A larger row is sent alone, up to `max_record_bytes`.

        Rows without a key go to the partitions in turn, starting with `first_partition` modulo their number. Give another one to
        each producer that writes only a few rows.
        """
        self._cluster = cluster
        self._codec = codec
        self._level = level
        self._max_batch_bytes = max_batch_bytes
        self._max_record_bytes = max_record_bytes
        self._delivery_timeout_s = delivery_timeout_s
        self._transactions: Transactions | None = None
        newest_produce = None
        if transactional_id is None:
            self._handle = _new_producer(cluster)
        else:
            self._transactions = Transactions(cluster, transactional_id, transaction_timeout_ms)
            self._handle = self._transactions.init_producer_id()
            newest_produce = NEWEST_PRODUCE_OF_FIRST if self._transactions.names_partitions else None
        response_timeout_s = min(_RESPONSE_TIMEOUT_S, delivery_timeout_s)
        self._sender = Sender(cluster, transactional_id, newest_produce, response_timeout_s)
        self._partitioner = Partitioner(first_partition)
        self._in_transaction = False
        self._added: set[TopicPartition] = set()
        self._has_offsets = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None and self._transactions is None:
                self.flush()
            elif self._in_transaction:
                self.abort()
        except ClientError as failure:
            if error is None:
                raise
            # The first failure is the one to report.
            error.add_note(f"After that, the transaction could not be aborted: {failure}")
        finally:
            self.close()

    def close(self) -> None:
        """Release the connections. Rows that are not flushed are lost. An open transaction stays open until its timeout."""
        self._sender.close()

    @property
    def has_written(self) -> bool:
        """Whether the open transaction has written anything. If not, it cannot be ended by its handle."""
        return bool(self._added) or self._has_offsets

    def handle(self) -> TransactionHandle:
        """What another process needs to end the open transaction. Call `flush` before you pass it on."""
        self._require_transaction()
        return self._handle

    def write(self, topic: str, rows: pyarrow.RecordBatch | pyarrow.Table, *, partition: int | None = None) -> None:
        """Send rows with the columns value and optionally key, headers, timestamp and partition.

        A row goes to `partition`, else to the partition of its column partition, else to that of its key's hash, else in turn.
        A missing topic is created if the brokers do so for producers. The call returns before the rows are acknowledged;
        `flush` and `commit` wait for that.
        """
        if self._transactions is not None:
            self._require_transaction()
        # A table's chunks may be small, and so would be their batches.
        chunks = rows.combine_chunks().to_batches() if isinstance(rows, pyarrow.Table) else [rows]
        for chunk in chunks:
            for piece in _pieces(chunk, _SPREAD_BYTES):
                for number, share in self._shares(topic, piece, partition):
                    self._write_partition((topic, number), share)

    def flush(self) -> dict[TopicPartition, Written]:
        """Wait until all rows are acknowledged. Returns what was written since the last flush, by topic and partition."""
        return self._sender.flush()

    def begin(self) -> None:
        """Begin a transaction."""
        if self._transactions is None:
            raise ClientError("this producer has no transactional id", "Set transactional_id when you create it.")
        if self._in_transaction:
            raise ClientError("a transaction is open already", "Commit or abort it first.")
        self._in_transaction = True

    def send_offsets(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group with the transaction: the offsets of the next records to read, by topic and partition."""
        transactions = self._require_transaction()
        transactions.send_offsets(self._handle, group, positions)
        self._has_offsets = True

    def commit(self) -> None:
        """Wait until all rows are acknowledged, and commit the transaction. May be called again after TimedOut."""
        self._require_transaction()
        self.flush()
        try:
            self._end(commit=True)
        except ClientError as error:
            if not passes(error):
                raise
            raise TimedOut(
                f"it is unknown whether the transaction of {self._handle.transactional_id} is committed, because the commit had "
                f"no response in time: {error.message}",
                "Commit again, which does no harm if it is committed, or look for its rows before you write them again.",
            ) from error

    def abort(self) -> None:
        """Abort the transaction. The producer can be used again afterwards, whatever failed before."""
        transactions = self._require_transaction()
        self._sender.drain()
        has_gaps = self._sender.failure is not None or not self._sender.is_idle
        self._sender.discard()
        handle = self._handle
        self._end(commit=False)
        if has_gaps and self._handle == handle:
            # Sequence numbers of lost batches are missing, so only a new epoch may start at 0.
            self._handle = transactions.init_producer_id(self._handle)
            self._sender.restart_sequences()

    def hand_over(self) -> None:
        """Leave the open transaction to the process that has its handle. The next transaction needs a new producer."""
        self._require_transaction()
        self.flush()
        self._forget_transaction()

    def _shares(
        self, topic: str, rows: pyarrow.RecordBatch, partition: int | None
    ) -> Iterable[tuple[int, pyarrow.RecordBatch]]:
        partitions = self._cluster.partitions(topic, create=True, max_age_s=_METADATA_AGE_S)
        highest = highest_partition(rows) if partition is None else partition
        if highest >= len(partitions):
            # The partition may just have been added.
            partitions = self._cluster.partitions(topic, max_age_s=0)
        if partition is None:
            return self._partitioner.split(rows, len(partitions))
        if not 0 <= partition < len(partitions):
            raise ValueError(f"topic {topic} has no partition {partition}: it has {len(partitions)}, counted from 0")
        return [(partition, rows)]

    def _write_partition(self, topic_partition: TopicPartition, rows: pyarrow.RecordBatch) -> None:
        self._add_to_transaction(topic_partition)
        deadline_s = time.monotonic() + self._delivery_timeout_s
        for piece in _pieces(rows, _ENCODED_BATCHES * self._max_batch_bytes):
            encoded = encode(
                piece,
                codec=self._codec,
                level=self._level,
                max_batch_bytes=self._max_batch_bytes,
                max_record_bytes=self._max_record_bytes,
                timestamp_ms=time.time_ns() // 1_000_000,
                producer_id=self._handle.producer_id,
                producer_epoch=self._handle.epoch,
                base_sequence=self._sender.queue(topic_partition).next_sequence,
                is_transactional=self._transactions is not None,
            )
            for batch in encoded:
                self._sender.add(
                    topic_partition, ProducerBatch(batch.data, batch.record_count, batch.base_sequence, deadline_s)
                )

    def _add_to_transaction(self, topic_partition: TopicPartition) -> None:
        if self._transactions is None or topic_partition in self._added:
            return
        if self._transactions.names_partitions:
            self._transactions.add_partitions(self._handle, [topic_partition])
        self._added.add(topic_partition)

    def _end(self, *, commit: bool) -> None:
        if self.has_written:
            ended = end_transaction(self._cluster, self._handle, commit)
            if ended != self._handle:
                self._handle = ended
                self._sender.restart_sequences()
        self._forget_transaction()

    def _forget_transaction(self) -> None:
        self._in_transaction = False
        self._added.clear()
        self._has_offsets = False

    def _require_transaction(self) -> Transactions:
        if self._transactions is None or not self._in_transaction:
            raise ClientError("no transaction is open", "Call begin() first.")
        return self._transactions


def _new_producer(cluster: Cluster) -> TransactionHandle:
    request = InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout=_NO_TIMEOUT,
        producer_id=ProducerId(-1),
        producer_epoch=i16(-1),
    )
    response = cluster.ask(request)
    raise_for(response.error_code, "cannot get a producer id")
    return TransactionHandle("", response.producer_id, response.producer_epoch)


def _pieces(rows: pyarrow.RecordBatch, size_bytes: int) -> Iterator[pyarrow.RecordBatch]:
    """The rows in pieces of about this size, judged by their average."""
    count = max(1, size_bytes * rows.num_rows // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, count):
        yield rows.slice(start, count)
