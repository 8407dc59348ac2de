"""Partition columns: computed by Spark from expressions such as `date(at)`, and split off by the tasks.

A folder's name holds the value as Hive writes it, for readers that use only folders. Characters with a meaning in a path
are escaped; others, such as umlauts, stay as they are: Spark decodes every escape as one character. A tilde is escaped
because deltalake expects it escaped when it compacts.

A text that is too long for the name of a folder is cut, with a digest of the whole text behind it, so that different texts stay apart. Its
length is that of the name which a compaction of a Delta table writes, with three characters for every byte that must be escaped.

Gaps
    An empty string becomes null, as with Spark: neither Hive's folders nor Delta's log can tell them apart.
    `date(at)` is taken in the time zone of the Spark session.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import numpy
import numpy.typing
import pyarrow

from catchment.pipelines.lakes.lake_errors import LakeRefused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMN: Final = re.compile(r"\w+", re.ASCII)
_CALL: Final = re.compile(r"(\w+)\(\s*(\w+)\s*\)", re.ASCII)
_NAMED: Final = re.compile(r"(?P<expression>.+)\s+as\s+(?P<name>\w+)", re.IGNORECASE | re.DOTALL)
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_PLAIN: Final = re.compile(r"[^\x00-\x7f]|[A-Za-z0-9._-]")
_LONGEST_NAME_BYTES: Final = 255
_DIGEST_LETTERS: Final = 16

PartitionValues = tuple[str | None, ...]
"""In the order of the partition columns; text as Delta's log takes it."""


class PartitionColumn(NamedTuple):
    """A column whose values are folders. Without an expression it is one of the rows' own."""

    name: str
    expression: str | None


def parse_partition_by(partition_by: Sequence[str]) -> tuple[PartitionColumn, ...]:
    columns = tuple(_parse(one.strip()) for one in partition_by)
    names = [column.name.lower() for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise LakeRefused(f"two partition columns are named {name}", "Name one of them: `expression AS name`.")
    return columns


def _parse(text: str) -> PartitionColumn:
    if _COLUMN.fullmatch(text):
        return PartitionColumn(text, None)
    if named := _NAMED.fullmatch(text):
        return PartitionColumn(named["name"], named["expression"])
    if call := _CALL.fullmatch(text):
        return PartitionColumn(f"{call[2]}_{call[1]}", text)
    raise LakeRefused(f"the partition column {text!r} has no name", f"Give it one: `{text} AS name`.")


def with_partition_columns(rows: DataFrame, columns: Sequence[PartitionColumn]) -> DataFrame:
    """The rows with the columns that expressions compute."""
    from pyspark.sql import functions

    check_partition_names(rows.columns, columns)
    computed = {column.name: functions.expr(column.expression) for column in columns if column.expression is not None}
    return rows.withColumns(computed) if computed else rows


def check_partition_names(own: Sequence[str], columns: Sequence[PartitionColumn]) -> None:
    """LakeRefused where rows of these columns lack one that is named, or have one that is to be computed."""
    known = {name.lower() for name in own}
    for column in columns:
        if column.expression is None and column.name.lower() not in known:
            raise LakeRefused(
                f"the lake is partitioned by {column.name}, and the rows have no such column",
                f"They have {', '.join(own)}.",
            )
        if column.expression is not None and column.name.lower() in known:
            raise LakeRefused(
                f"the rows have a column {column.name} already, the name of the partition column {column.expression}",
                f"Name it otherwise: `{column.expression} AS name`.",
            )


def check_partition_types(schema: pyarrow.Schema, names: Sequence[str]) -> None:
    if len(names) == len(schema):
        raise LakeRefused(
            "the lake is partitioned by all of its columns", "Leave one out: a file needs something in it."
        )
    for name in names:
        check_partition_type(name, schema.field(name).type)


def check_partition_type(name: str, kind: pyarrow.DataType) -> None:
    """LakeRefused unless values of this type can be the names of folders."""
    types = pyarrow.types
    if not (types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_date(kind)):
        raise LakeRefused(
            f"the lake cannot be partitioned by {name}, which is of type {kind}",
            "Partition by texts, integers, booleans or dates, such as date(at).",
        )


def split(batch: pyarrow.RecordBatch, names: Sequence[str]) -> Iterator[tuple[PartitionValues, pyarrow.RecordBatch]]:
    """The rows of each combination of partition values, without the partition columns, in the order they came in."""
    if not names or not batch.num_rows:
        yield ((), batch) if not names else ((None,) * len(names), batch.drop_columns(list(names)))
        return
    codes = numpy.zeros(batch.num_rows, dtype=numpy.int64)
    texts: list[list[str | None]] = []
    indices: list[numpy.typing.NDArray[numpy.int64]] = []
    for name in names:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        texts.append([_fitting(name, text) for text in encoded.dictionary.cast(pyarrow.string()).to_pylist()])
        indices.append(encoded.indices.to_numpy().astype(numpy.int64))
        # Renumbered for every column, the codes stay below the number of rows.
        codes = numpy.unique(codes * len(texts[-1]) + indices[-1], return_inverse=True)[1]
    order = numpy.argsort(codes, kind="stable")
    starts = numpy.flatnonzero(numpy.diff(codes[order], prepend=-1))
    rest = batch.drop_columns(list(names))
    ordered = rest if len(starts) == 1 else rest.take(pyarrow.array(order))
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        values = tuple(text[index[order[start]]] for text, index in zip(texts, indices, strict=True))
        yield values, ordered.slice(start, end - start)


def partition_folder(names: Sequence[str], values: PartitionValues) -> str:
    """Hive's folders for these values, with a slash behind each."""
    return "".join(f"{name}={_escaped(value)}/" for name, value in zip(names, values, strict=True))


def _fitting(name: str, text: str | None) -> str | None:
    """A value as a folder's name can hold it; None for an empty one."""
    room = _LONGEST_NAME_BYTES - len(f"{name}=".encode())
    if not text or _escaped_bytes(text) <= room:
        return text or None
    room -= _DIGEST_LETTERS + 1
    length = 0
    # A character takes at least one byte.
    for letter in text[: max(0, room)]:
        if (room := room - _escaped_bytes(letter)) < 0:
            break
        length += 1
    return f"{text[:length]}-{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LETTERS]}"


def _escaped_bytes(text: str) -> int:
    return len(quote(text, safe="")) + 2 * text.count("~")


def _escaped(value: str | None) -> str:
    if value is None:
        return _NULL
    return "".join(one if _PLAIN.fullmatch(one) else f"%{ord(one):02X}" for one in value)
