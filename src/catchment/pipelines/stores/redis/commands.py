"""Rows as Redis commands, their transaction, and the answers as rows.

A transaction is sent in pieces: however large a batch is, only a few of its commands are in memory here. Redis collects the commands after
MULTI and runs them together at EXEC, unless a watched key has changed. A connection that breaks before leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow
import redis
from pyarrow import compute, types

from catchment.pipelines.stores.definition import Definition
from catchment.pipelines.stores.redis import scripts
from catchment.pipelines.stores.rows import Batch
from catchment.pipelines.stores.text_values import from_text, to_text

_ROWS_AT_ONCE: Final = 1_000
_BYTES_AT_ONCE: Final = 4 << 20
# Bytes that are not text pass through JSON unchanged as Python's surrogates.
_ANY_BYTES: Final = "surrogateescape"


def escaped(part: str) -> str:
    """A part of a key, in which a colon does not look like the next part."""
    return part.replace("%", "%25").replace(":", "%3A")


def noted_commands(pieces: Iterator[Command], note: str, count: str, batch_id: int) -> Iterator[Command]:
    """The counted pieces of a batch, and then its number, which is written only if all of them were done."""
    yield ("DEL", count)
    number = 0
    for piece in pieces:
        number += 1
        yield piece
    yield ("EVAL", scripts.NOTE, 2, note, count, batch_id, number)


def commands(
    index: str, batch: Batch, definition: Definition, now_us: int, batch_name: str, count: str | None = None
) -> Iterator[Command]:
    """The commands that apply a batch to a layer, in pieces, which are counted under a key if it is given."""
    keys_of_script = (1, index) if count is None else (2, index, count)
    gone = _keys(batch.deleted_keys)
    for first in range(0, len(gone), _ROWS_AT_ONCE):
        yield ("EVAL", scripts.DELETE, *keys_of_script, _json(gone[first : first + _ROWS_AT_ONCE]))
    names = _json(batch.upserts.column_names)
    # Redis accepts no string above 512 MB.
    row_bytes = batch.upserts.nbytes // max(1, batch.upserts.num_rows) + 1
    rows_at_once = min(_ROWS_AT_ONCE, max(1, _BYTES_AT_ONCE // row_bytes))
    for first in range(0, batch.upserts.num_rows, rows_at_once):
        rows = batch.upserts.slice(first, rows_at_once)
        if definition.layout.key:
            keys = _keys(rows.select(definition.layout.key))
        else:
            keys = [f"{escaped(batch_name)}-{first + number}" for number in range(rows.num_rows)]
        columns = [keys, _scores(rows, definition, now_us), *[_texts(column) for column in rows.columns]]
        yield ("EVAL", scripts.PUT, *keys_of_script, names, _json(list(zip(*columns, strict=True))))


def _json(values: Sequence[object]) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode("utf-8", _ANY_BYTES)


def _keys(keys: pyarrow.Table) -> list[str]:
    if not keys.num_columns:
        return []
    texts = [to_text(column).to_pylist() for column in keys.columns]
    return [":".join([escaped(part) for part in parts]) for parts in zip(*texts, strict=True)]


def _scores(rows: pyarrow.Table, definition: Definition, now_us: int) -> list[str]:
    end = definition.layout.window_end
    if end is None:
        return [str(now_us)] * rows.num_rows
    moments: list[str] = compute.cast(compute.cast(rows.column(end), pyarrow.int64()), pyarrow.string()).to_pylist()
    return moments


def _texts(column: pyarrow.ChunkedArray) -> list[str | None]:
    if types.is_binary(column.type):
        return [None if value is None else value.decode("utf-8", _ANY_BYTES) for value in column.to_pylist()]
    values: list[str | None] = to_text(column).to_pylist()
    return values


def from_answer(answer: bytes, schema: pyarrow.Schema) -> pyarrow.Table:
    """Rows of which each is the list of its values, in the order of the columns."""
    rows: list[list[str | bool]] = json.loads(answer.decode("utf-8", _ANY_BYTES))
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pyarrow.table(
        [_column(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )


def _column(values: Sequence[str | bool], kind: pyarrow.DataType) -> pyarrow.Array:
    present = [value if isinstance(value, str) else None for value in values]
    if types.is_binary(kind):
        return pyarrow.array([None if value is None else value.encode("utf-8", _ANY_BYTES) for value in present], kind)
    return from_text(pyarrow.array(present, pyarrow.string()), kind)


COMMANDS_AT_ONCE: Final = 8

Command = tuple[str | bytes | int | float, ...]


class Transaction:
    """A transaction whose reads must still hold when `run` is called."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def ask(self, *command: str | bytes) -> Any:
        """The answer to one command, before the transaction's own."""
        self._connection.send_command(*command)
        return self._connection.read_response()

    def run(self, commands: Iterable[Command]) -> bool:
        """Run all of the commands; or none of them, and return False, if another client has changed a watched key."""
        self.ask("MULTI")
        remaining = iter(commands)
        while piece := list(islice(remaining, COMMANDS_AT_ONCE)):
            self._connection.send_packed_command(self._connection.pack_commands(piece))
            for _ in piece:
                self._connection.read_response()
        answers = self.ask("EXEC")
        if answers is None:
            return False
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise answer
        return True


@contextlib.contextmanager
def watching(client: redis.Redis, *keys: str) -> Iterator[Transaction]:
    """A transaction that fails if one of these keys changes; whatever happens, the connection is left clean."""
    connection: Any = client.connection_pool.get_connection()
    is_clean = False
    try:
        transaction = Transaction(connection)
        transaction.ask("WATCH", *keys)
        yield transaction
        transaction.ask("UNWATCH")
        is_clean = True
    finally:
        if not is_clean:
            connection.disconnect()
        client.connection_pool.release(connection)
