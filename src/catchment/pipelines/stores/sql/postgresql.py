"""PostgreSQL as a real-time store: for readers on other machines.

Behaviour
    A batch goes by COPY into a temporary table, and from there into its table by one statement. Every column has a type of the
    database: nested ones are jsonb, timestamps timestamptz. The next call replaces a lost connection.
    Definitions change under a lock that readers see as a short wait; they take the view before its tables, and so do we.
    PostgreSQL cannot store the NUL character: U+FFFD replaces it, so that a record with one does not stop a pipeline.
    A key that is longer than an index entry may be (some 2,700 bytes) makes its row unstorable, as the server itself says.
Gaps
    Tables are made in the first schema of the user's search path.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy
import psycopg
import pyarrow
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyarrow import compute, csv, types

from catchment.pipelines.stores.definition import Definition
from catchment.pipelines.stores.rows import conform, with_reason
from catchment.pipelines.stores.sql.connection_errors import code_of_refusal
from catchment.pipelines.stores.sql.session import Session, listed, quoted, upsert_clause
from catchment.pipelines.stores.sql.store import SqlStore
from catchment.pipelines.stores.store import Clock
from catchment.pipelines.stores.store_errors import StoreAway, StoreDenied, StoreError, StoreRefused
from catchment.pipelines.stores.text_values import from_text, to_text

# These detect a server or a network that is gone silently.
_DEFAULTS: Final[dict[str, str | int]] = {
    "application_name": "catchment",
    "connect_timeout": 10,
    "tcp_user_timeout": 30_000,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
}
_SETTINGS: Final = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET bytea_output = 'hex'; SET client_encoding = 'UTF8'; "
    "SET lock_timeout = '30s'; SET extra_float_digits = 1"
)
# Any number will do, as long as all processes that change definitions use the same.
_DEFINITIONS_LOCK: Final = 7_205_759_403
_INCOMING: Final = "catchment_incoming"
_NUL: Final = "\0"
_REPLACEMENT: Final = "\ufffd"
_ESCAPE_IN_JSON: Final = re.compile(r"\\(u0000|.)")
_AWAY: Final = {
    "08": "Check that the server is up and that it can be reached from here.",
    "25": "The server takes no changes: point the address to the primary.",
    "40": "It collided with another transaction.",
    "53": "The server has no room or no connections left: make room.",
    "55": "Another transaction holds the table: let it finish.",
    "57": "The server was stopped or is starting.",
    "58": "Look after the server's disk.",
}


class PostgresqlStore(SqlStore):
    """A table in a database of PostgreSQL."""

    def __init__(self, url: str, table: str, ttl_ms: int | None, clock: Clock) -> None:
        super().__init__(table, ttl_ms, clock)
        try:
            given = conninfo_to_dict(url)
            self._address = make_conninfo(
                url, **{name: value for name, value in _DEFAULTS.items() if name not in given}
            )
        except psycopg.ProgrammingError:
            # The library's message would contain the address, and with it the password.
            raise StoreRefused(
                f"the address of the store of table {table} cannot be read",
                "Write postgresql://user:password@host:5432/database, with %40 for an @ in the password, %2F for a /.",
            ) from None
        self._server = f"{given.get('host') or 'localhost'}/{given.get('dbname') or ''}"
        self._connection: psycopg.Connection | None = None

    @contextlib.contextmanager
    def _transaction(self, *, to_write: bool = True) -> Iterator[Session]:
        try:
            connection = self._connection or self._connect()
            with connection.transaction():
                yield _PostgresqlSession(connection)
        except psycopg.Error as error:
            # A broken connection does not say whether its last commit succeeded; the batch's number does.
            if self._connection is not None and self._connection.broken:
                self.close()
            raise self._explained(error) from error

    def _connect(self) -> psycopg.Connection:
        try:
            connection = psycopg.connect(self._address, autocommit=True)
        except psycopg.OperationalError as error:
            raise self._connection_error(error) from error
        try:
            connection.execute(_SETTINGS)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def write(self, rows: pyarrow.Table, query: str, batch_id: int, version: int) -> bool:
        """As the contract says. Keys that only NUL characters tell apart are one."""
        return super().write(_without_nul(rows), query, batch_id, version)

    def reasons_against(self, rows: pyarrow.Table, definition: Definition) -> pyarrow.ChunkedArray:
        """As the contract says; whether long keys fit into an index, the server is asked."""
        reasons = super().reasons_against(rows, definition)
        if not definition.layout.key:
            return reasons
        keys = _without_nul(conform(rows, definition).select(definition.layout.key))

        def can_index(some: pyarrow.Table) -> bool:
            with self._lock, self._transaction() as session:
                assert isinstance(session, _PostgresqlSession), "it is this store's own"
                return session.can_index(some)

        is_too_long = too_long(keys, can_index)
        if not is_too_long.any():
            return reasons
        most = longest(keys.filter(is_too_long))
        reason = f"column {most!r} makes the key too long: an index of PostgreSQL has room for some 2,700 bytes"
        return with_reason(reasons, pyarrow.chunked_array([is_too_long]), reason)

    def write_batch_layer(self, rows: pyarrow.Table, version: int) -> None:
        """As the contract says."""
        super().write_batch_layer(_without_nul(rows), version)

    def _explained(self, error: psycopg.Error) -> StoreError:
        words = str(error).strip().replace("\n", " ")
        message = f"PostgreSQL at {self._server}, table {self._table}: {words}"
        is_cut_off = error.sqlstate is None and isinstance(error, psycopg.OperationalError)
        advice = _AWAY.get("08" if is_cut_off else (error.sqlstate or "")[:2])
        return StoreAway(message, advice) if advice else StoreRefused(message)

    def _connection_error(self, error: psycopg.OperationalError) -> StoreError:
        """The error of a failed connection: without an answer of a server it may succeed later."""
        code = code_of_refusal(self._address, error)
        explained = self._explained(error)
        if code is None or code[:2] in _AWAY:
            return StoreAway(explained.message, _AWAY["08" if code is None else code[:2]])
        return StoreDenied(explained.message, "Check user, password and database in the address.")

    def close(self) -> None:
        """As the contract says."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class _PostgresqlSession(Session):
    earliest = "TIMESTAMPTZ '-infinity'"
    moment_type = "TIMESTAMPTZ"

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        cursor = self._run(statement, parameters)
        return cursor.fetchall() if cursor.description else []

    def change(self, statement: str) -> int:
        return self._run(statement).rowcount

    def _run(self, statement: str, parameters: Sequence[object] = ()) -> psycopg.Cursor:
        if parameters:
            return self._connection.execute(statement.replace("?", "%s").encode(), parameters)
        return self._connection.execute(statement.encode())

    def upsert(self, table: str, rows: pyarrow.Table, key: Sequence[str]) -> None:
        names = rows.column_names
        if not key:
            self._copy(table, rows)
            return
        self._copy_aside(table, rows)
        self.execute(
            f"INSERT INTO {quoted(table)} ({listed(names)}) SELECT {listed(names)} FROM {_INCOMING}"
            + upsert_clause(names, key)
        )
        self.execute(f"DROP TABLE {_INCOMING}")

    def delete(self, table: str, keys: pyarrow.Table) -> None:
        self._copy_aside(table, keys)
        condition = " AND ".join(f"old.{quoted(name)} = {_INCOMING}.{quoted(name)}" for name in keys.column_names)
        self.execute(f"DELETE FROM {quoted(table)} AS old USING {_INCOMING} WHERE {condition}")
        self.execute(f"DROP TABLE {_INCOMING}")

    def can_index(self, keys: pyarrow.Table) -> bool:
        """Whether an index has room for every one of these keys: tried in a transaction that is rolled back."""
        columns = ", ".join(f"{quoted(field.name)} {self.type_of(field.type)}" for field in keys.schema)
        try:
            with self._connection.transaction() as trial:
                self.execute(f"CREATE TEMPORARY TABLE {_INCOMING} ({columns})")
                self._copy(_INCOMING, keys)
                self.execute(f"CREATE INDEX ON {_INCOMING} ({listed(keys.column_names)})")
                raise psycopg.Rollback(trial)
        except psycopg.errors.ProgramLimitExceeded:
            return False
        return True

    def _copy_aside(self, table: str, rows: pyarrow.Table) -> None:
        names = listed(rows.column_names)
        self.execute(
            f"CREATE TEMPORARY TABLE {_INCOMING} ON COMMIT DROP AS SELECT {names} FROM {quoted(table)} WITH NO DATA"
        )
        self._copy(_INCOMING, rows)

    def _copy(self, table: str, rows: pyarrow.Table) -> None:
        texts = [to_text(column, of_bytes=lambda value: "\\x" + value.hex()) for column in rows.columns]
        for position, column in enumerate(rows.columns):
            if types.is_nested(column.type):
                texts[position] = _json_without_nul(texts[position])
        form = csv.WriteOptions(include_header=False)
        statement = f"COPY {quoted(table)} ({listed(rows.column_names)}) FROM STDIN (FORMAT csv)"
        with self._connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            lines = pyarrow.BufferOutputStream()
            csv.write_csv(pyarrow.table(texts, names=rows.column_names), lines, form)
            copy.write(memoryview(lines.getvalue()))

    def fetch(self, relation: str, schema: pyarrow.Schema) -> pyarrow.Table:
        values = ", ".join(f"{quoted(name)}::text" for name in schema.names)
        lines = io.BytesIO()
        statement = f"COPY (SELECT {values} FROM {quoted(relation)}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"
        with self._connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for block in copy:
                lines.write(block)
        if not lines.tell():
            return schema.empty_table()
        lines.seek(0)
        texts = csv.read_csv(
            lines,
            csv.ReadOptions(column_names=schema.names),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types={name: pyarrow.string() for name in schema.names},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        columns = [_column(column, field.type) for column, field in zip(texts.columns, schema, strict=True)]
        return pyarrow.table(columns, schema=schema)

    def lock_definitions(self, view: str) -> None:
        self.execute("SELECT pg_advisory_xact_lock(?)", _DEFINITIONS_LOCK)
        if self.execute("SELECT 1 FROM pg_class WHERE oid = to_regclass(?) AND relkind = 'v'", quoted(view)):
            self.execute(f"LOCK TABLE {quoted(view)} IN ACCESS EXCLUSIVE MODE")

    def has_relation(self, name: str) -> bool:
        return bool(self.execute("SELECT 1 WHERE to_regclass(?) IS NOT NULL", quoted(name)))

    def replace_view(self, name: str, query: str) -> None:
        try:
            with self._connection.transaction():
                self.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {query}")
        except psycopg.errors.InvalidTableDefinition:
            # A column is gone with the version that had it, and a view can only be given more of them.
            self.execute(f"DROP VIEW {quoted(name)}")
            self.execute(f"CREATE VIEW {quoted(name)} AS {query}")

    def type_of(self, kind: pyarrow.DataType) -> str:
        if types.is_decimal(kind):
            return f"NUMERIC({kind.precision}, {kind.scale})"
        if types.is_timestamp(kind):
            return "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
        return "JSONB" if types.is_nested(kind) else _TYPES[kind]


_TYPES: Final[dict[pyarrow.DataType, str]] = {
    pyarrow.bool_(): "BOOLEAN",
    pyarrow.int8(): "SMALLINT",
    pyarrow.int16(): "SMALLINT",
    pyarrow.int32(): "INTEGER",
    pyarrow.int64(): "BIGINT",
    pyarrow.float32(): "REAL",
    pyarrow.float64(): "DOUBLE PRECISION",
    pyarrow.string(): "TEXT",
    pyarrow.binary(): "BYTEA",
    pyarrow.date32(): "DATE",
}


def _without_nul(rows: pyarrow.Table) -> pyarrow.Table:
    """The rows with texts that PostgreSQL can hold; what is nested is text only later."""
    for position, column in enumerate(rows.columns):
        is_text = types.is_string(column.type) or types.is_large_string(column.type)
        if is_text and compute.any(compute.match_substring(column, _NUL)).as_py():
            replaced = compute.replace_substring(column, _NUL, _REPLACEMENT)
            rows = rows.set_column(position, rows.schema.field(position), replaced)
    return rows


def _json_without_nul(texts: pyarrow.Array) -> pyarrow.Array:
    if not compute.any(compute.match_substring(texts, "\\u0000")).as_py():
        return texts

    def replacement(escape: re.Match[str]) -> str:
        return _REPLACEMENT if escape[1] == "u0000" else escape[0]

    found = [None if text is None else _ESCAPE_IN_JSON.sub(replacement, text) for text in texts.to_pylist()]
    return pyarrow.array(found, texts.type)


def _column(texts: pyarrow.ChunkedArray, kind: pyarrow.DataType) -> pyarrow.Array | pyarrow.ChunkedArray:
    if types.is_binary(kind):
        # Bytes come as \x and then in hexadecimal digits.
        texts = compute.utf8_slice_codeunits(texts, 2)
    return from_text(texts, kind)


CanIndex = Callable[[pyarrow.Table], bool]
"""Whether the server can index every one of some keys."""
_SURELY_SHORT_BYTES: Final = 1_800
"""The rest of 2,700 is for the overhead of an index's columns, 32 at most, and for those of a fixed size."""


def too_long(keys: pyarrow.Table, can_index: CanIndex) -> numpy.ndarray:
    """Whether each key is too long for an index. Where all are short, which is the rule, the server is not asked.

    An index entry has room for a third of a page, some 2,700 bytes, after compression. Only the server knows how far a key can be
    compressed, so possibly long keys are inserted into a temporary index. If some do not fit, halves are tried until each is found.
    """
    found = numpy.zeros(keys.num_rows, dtype=bool)
    found[_too_long(keys, numpy.flatnonzero(_bytes(keys) > _SURELY_SHORT_BYTES), can_index)] = True
    return found


def longest(keys: pyarrow.Table) -> str:
    """The column that makes the keys long."""
    names: list[str] = keys.column_names
    return max(names, key=lambda name: int(_bytes(keys.select([name])).max(initial=0)))


def _too_long(keys: pyarrow.Table, positions: numpy.ndarray, can_index: CanIndex) -> list[int]:
    if not len(positions) or can_index(keys.take(positions)):
        return []
    if len(positions) == 1:
        return [int(positions[0])]
    middle = len(positions) // 2
    return [*_too_long(keys, positions[:middle], can_index), *_too_long(keys, positions[middle:], can_index)]


def _bytes(keys: pyarrow.Table) -> numpy.ndarray:
    """How long each key is, in texts and bytes."""
    total = numpy.zeros(keys.num_rows, dtype=numpy.int64)
    for column in keys.columns:
        if types.is_string(column.type) or types.is_binary(column.type):
            total += compute.fill_null(compute.binary_length(column), 0).to_numpy()
    return total
