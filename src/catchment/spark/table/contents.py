"""The contents of a table: of each key the last record of a topic, up to given offsets.

A key is that of the record, within its partition, as it is for compaction; a record without a value deletes it. Where fields
of the value are the key as well, the latest record of those that share them stands for all.

What was read stays in the process, so that the next version costs what has changed since. A version that is older than what
is there, of a batch that is repeated, is read again from the start of the topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from catchment.client.cluster import Cluster
from catchment.client.columns.keyed_rows import last_of_each_key
from catchment.client.errors import ClientError
from catchment.client.offsets import EARLIEST
from catchment.client.reader import OffsetOutOfRange, Reader, Span
from catchment.spark.formats.decoding import Decoding

_KEY: Final = "__key"
_DELETED: Final = "__deleted"
_METADATA_AGE_S: Final = 1.0


@dataclass(frozen=True)
class TableShape:
    """The columns that are read of a topic, and the key of its rows."""

    topic: str
    table_key: tuple[str, ...]
    decoding: Decoding
    schema: pa.Schema
    """The columns that are kept: key, value and place are among them."""

    def columns_of(self, batch: pa.RecordBatch) -> pa.Table:
        """A batch of records, decoded, with the bytes of the key and whether it deletes. What does not decode is left out."""
        decoded = self.decoding.apply(batch, self.schema) if self.decoding.decoders else batch.select(self.schema.names)
        table = pa.Table.from_batches([decoded])
        table = table.append_column(_KEY, batch.column("key"))
        table = table.append_column(_DELETED, pc.is_null(batch.column("value")))
        if "valueError" in self.schema.names:
            table = table.filter(pc.is_null(table.column("valueError")))
        return table

    def key_columns(self, table: pa.Table) -> pa.Table:
        value = table.column("value").combine_chunks() if self.table_key else None
        return pa.table({f"__key_{name}": pc.struct_field(value, name) for name in self.table_key})


class TableContents:
    """One table, as far as it was read."""

    def __init__(self, shape: TableShape) -> None:
        self._shape = shape
        self._topic_id: UUID | None = None
        self._read_to: dict[int, int] = {}
        self._rows: pa.Table | None = None
        self._answer: pa.Table | None = None

    def at(self, cluster: Cluster, ends: Mapping[int, int]) -> pa.Table:
        """The table when its partitions ended there."""
        # The process may be much older than the topic is.
        cluster.partitions(self._shape.topic, max_age_s=_METADATA_AGE_S)
        topic_id = cluster.topic_id(self._shape.topic)
        if topic_id != self._topic_id:
            self._forget()
            self._topic_id = topic_id
        if any(ends.get(partition, 0) < read_to for partition, read_to in self._read_to.items()):
            self._forget()
        if self._answer is None or self._read_to != dict(ends):
            try:
                self._catch_up(cluster, ends)
            except OffsetOutOfRange:
                # Records after the last one read are gone: the topic was recreated, or retention deleted them.
                self._forget()
                self._catch_up(cluster, ends)
        assert self._answer is not None
        return self._answer

    def _forget(self) -> None:
        self._read_to, self._rows, self._answer = {}, None, None

    def _catch_up(self, cluster: Cluster, ends: Mapping[int, int]) -> None:
        shape = self._shape
        unread = [(shape.topic, partition) for partition in ends if partition not in self._read_to]
        begins = {place[1]: found.offset for place, found in cluster.list_offsets(unread, EARLIEST).items()}
        spans = [Span(shape.topic, number, (begins | self._read_to)[number], end) for number, end in ends.items()]
        parts = list(_read(cluster, shape, [span for span in spans if span.start < ends[span.partition]]))
        if parts:
            known = [] if self._rows is None else [self._rows]
            self._rows = _last_of_each_key(shape, pa.concat_tables([*known, *parts]))
            self._answer = _distinct(shape, self._rows).select(shape.schema.names)
        elif self._answer is None:
            self._answer = shape.schema.empty_table()
        self._read_to = dict(ends)


def _read(cluster: Cluster, shape: TableShape, spans: list[Span]) -> Iterator[pa.Table]:
    if not spans:
        return
    columns = shape.decoding.raw_columns(shape.schema.names)
    with Reader(cluster, spans, columns=columns, read_committed=True) as reader:
        for read in reader:
            yield shape.columns_of(read.batch)


def _last_of_each_key(shape: TableShape, rows: pa.Table) -> pa.Table:
    """Rows of one partition are in their order, so that the last is the newest."""
    has_key = pc.is_valid(rows.column(_KEY))
    if not shape.table_key and not pc.all(has_key, min_count=0).as_py():
        place = rows.filter(pc.invert(has_key)).slice(0, 1).select(["partition", "offset"]).to_pylist()[0]
        raise ClientError(
            f"topic {shape.topic}, partition {place['partition']}, offset {place['offset']}: a record of a table has no key",
            "Write it with a key, or set tableKey to the fields of the value that are the key.",
        )
    # Fields of the value are the key only of rows without a record key.
    columns = shape.key_columns(rows)
    fields = {
        name: pc.if_else(has_key, pa.scalar(None, column.type), column)
        for name, column in zip(columns.column_names, columns.columns, strict=True)
    }
    keys = {"partition": rows.column("partition"), _KEY: rows.column(_KEY), **fields}
    kept = rows.take(last_of_each_key(pa.table(keys)))
    return kept.filter(pc.invert(kept.column(_DELETED)))


def _distinct(shape: TableShape, rows: pa.Table) -> pa.Table:
    """The latest row of those that have the same fields as their key."""
    if not shape.table_key or not rows.num_rows:
        return rows
    last = last_of_each_key(shape.key_columns(rows))
    if len(last) == rows.num_rows:
        return rows
    ordered = rows.sort_by([("timestamp", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
    return ordered.take(last_of_each_key(shape.key_columns(ordered)))
