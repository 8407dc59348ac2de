"""Which columns of a stage stores and lakes can keep, checked before the first row arrives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from catchment.client.errors import ClientError
from catchment.pipelines.checks.columns import Findings, finding, with_owner
from catchment.pipelines.declaration.specification import LakeSink, Stage, StoreSink, TopicSink
from catchment.pipelines.errors import Finding, Path
from catchment.pipelines.lakes.lake_errors import LakeRefused
from catchment.pipelines.lakes.partitioning import (
    check_partition_names,
    check_partition_type,
    parse_partition_by,
)
from catchment.pipelines.lakes.schemas import arrow_schema
from catchment.pipelines.planning.spark_columns import SparkColumns
from catchment.pipelines.stores.definition import DELETED, Definition, Layout
from catchment.pipelines.stores.store_errors import StoreRefused


def of_sink(
    number: int, sink: StoreSink | LakeSink | TopicSink, stage: Stage | None, columns: SparkColumns
) -> Findings:
    """What a sink cannot keep of columns that are all there; `stage` is what it keeps, if it is one."""
    path: Path = ("sinks", number)
    if isinstance(sink, StoreSink):
        yield from _store(path, sink, sink.key or (stage.key if stage else ()), columns)
    elif isinstance(sink, LakeSink):
        yield from _lake(path, sink, columns)


def _store(path: Path, sink: StoreSink, key: tuple[str, ...], columns: SparkColumns) -> Findings:
    wrong: list[Finding] = []
    if sink.ttl is not None and sink.ttl <= 0:
        wrong.append(finding((*path, "ttl"), f"{sink.ttl} ms would keep nothing of {columns.owner}; give a longer one"))
    fields: dict[str, pyarrow.Field] = {}
    for field in columns.schema:
        try:
            fields[field.name] = _stored(sink, field)
        except StoreRefused as error:
            wrong.append(finding(path, with_owner(str(error), columns.owner)))
    for name in key:
        if name in fields:
            keyed = Layout(sink.table, key=(name,))
            where = (*path, "key") if sink.key else path
            wrong += _refused(where, columns.owner, partial(Definition.of, pyarrow.schema([fields[name]]), keyed))
    if sink.window_end is not None and sink.window_end in fields:
        ended = Layout(sink.table, window_end=sink.window_end)
        of_end = pyarrow.schema([fields[sink.window_end]])
        wrong += _refused((*path, "window_end"), columns.owner, partial(Definition.of, of_end, ended))
    yield from wrong
    if not wrong:
        # Names that differ in case alone, or not at all.
        every = pyarrow.schema([fields[name] for name in columns.schema.names])
        yield from _refused(path, columns.owner, lambda: Definition.of(every, Layout(sink.table)))


def _lake(path: Path, sink: LakeSink, columns: SparkColumns) -> Findings:
    wrong = [
        one
        for field in columns.schema
        for one in _refused(path, columns.owner, partial(arrow_schema, StructType([field])))
    ]
    by = (*path, "partition_by")
    for text in sink.partition_by:
        wrong += _refused(by, columns.owner, partial(_check_partition, text, columns))
    yield from wrong
    if not wrong:
        yield from _refused(path, columns.owner, lambda: arrow_schema(columns.schema))
        yield from _refused(by, columns.owner, lambda: _check_partitions(sink, columns))


def _check_partition(text: str, columns: SparkColumns) -> None:
    (column,) = parse_partition_by([text])
    kind = columns.schema[column.name].dataType if column.expression is None else columns.kind(column.expression)
    check_partition_type(column.name, _arrow(column.name, kind))


def _check_partitions(sink: LakeSink, columns: SparkColumns) -> None:
    """What can only be checked of all partition columns together."""
    by = parse_partition_by(sink.partition_by)
    check_partition_names(columns.schema.names, by)
    if by and {one.name for one in by if one.expression is None} >= set(columns.schema.names):
        raise LakeRefused(
            "the lake is partitioned by all of its columns", "Leave one out: a file needs something in it."
        )


def _stored(sink: StoreSink, field: StructField) -> pyarrow.Field:
    """A column as a store is given it; StoreRefused where it has no place for it."""
    found = pyarrow.field(field.name, _arrow(field.name, field.dataType))
    if field.name != DELETED:
        Definition.of(pyarrow.schema([found]), Layout(sink.table))
    return found


def _arrow(name: str, kind: DataType) -> pyarrow.DataType:
    try:
        return to_arrow_type(kind, timezone="UTC")
    except (TypeError, ValueError, RuntimeError) as cause:
        raise StoreRefused(
            f"column {name} is of type {kind.simpleString()}, which cannot be kept", "Cast it, or leave it out."
        ) from cause


def _refused(path: Path, owner: str, attempt: Callable[[], object]) -> Findings:
    try:
        attempt()
    except ClientError as error:
        yield finding(path, with_owner(str(error), owner))
