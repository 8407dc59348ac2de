"""Redis as a real-time store: each row is a hash that a program reads by its key in well under a millisecond.

Behaviour
    A row of table `board` is the hash `board:<version>:speed:<key>`, a field for each column that is not NULL, as text; parts of the
    key are separated by colons, and a colon or percent sign within one is written %3A or %25. `board:view` says which version is
    shown, and until when from the batch layer; `read` looks at it and at the rows in one script, so it never sees half a switch.
    A batch and its number are one MULTI, sent in pieces of 1,000 rows and run as a whole: no other client is served meanwhile. It does not
    undo a transaction of which a command fails: then the number is not written, and the batch is repeated over what is there of it.
Gaps
    One server, or a primary with replicas: no Redis Cluster. There is no view for a program that reads the hashes itself: it
    must look at `board:view` first. `read` gives the whole table in one answer. What is acknowledged survives a crash only as far as
    `appendfsync` says, and evicted rows are gone: see the guide.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pyarrow
import redis

from catchment.pipelines.ownership.owner import Asking, Found, Owner
from catchment.pipelines.stores.definition import Definition, Layout, Version, Written, shown_columns
from catchment.pipelines.stores.redis import scripts
from catchment.pipelines.stores.redis.commands import (
    Transaction,
    commands,
    escaped,
    from_answer,
    noted_commands,
    watching,
)
from catchment.pipelines.stores.rows import Batch
from catchment.pipelines.stores.store import (
    MILLISECOND,
    Check,
    Clock,
    RealTimeStore,
    check_unseen,
    is_shown,
    microseconds,
    moment_of,
    not_prepared,
    window_end,
    with_ttl,
)
from catchment.pipelines.stores.store_errors import StoreAway, StoreDenied, StoreError, StoreRefused

_CONNECT_TIMEOUT_S: Final = 10
_ANSWER_TIMEOUT_S: Final = 60
_ATTEMPTS: Final = 20
_LAYERS: Final = ("speed", "batch")
_KEYS_AT_ONCE: Final = 1_000
_UP: Final = "Check that the server is up and that it can be reached from here."
_NO_ROOM: Final = "Give the server more memory or disk, or keep less: a shorter ttl, fewer versions."
_SHORTAGE_ERRORS: Final = ("OOM", "MISCONF", "LOADING", "BUSY", "NOREPLICAS", "MASTERDOWN", "READONLY")


class RedisStore(RealTimeStore):
    """A table in a Redis server."""

    def __init__(self, url: str, table: str, ttl_ms: int | None, clock: Clock) -> None:
        self._table = table
        self._ttl_ms = ttl_ms
        self._clock = clock
        try:
            self._client = redis.Redis.from_url(
                url,
                socket_connect_timeout=_CONNECT_TIMEOUT_S,
                socket_timeout=_ANSWER_TIMEOUT_S,
                client_name="catchment",
            )
        except ValueError:
            # The library's message might contain the address, and with it the password.
            raise StoreRefused(
                f"the address of the store of table {table} cannot be read",
                "Write redis://user:password@host:6379/0, with %40 for an @ in the password, %2F for a /.",
            ) from None
        self._view = f"{table}:view"
        self._versions = f"{table}:versions"
        self._untils = f"{table}:untils"
        self._owners = f"{table}:owners"
        self._owner: Owner | None = None

    def prepare(self, schema: pyarrow.Schema, layout: Layout) -> None:
        """As the contract says."""
        wanted = with_ttl(Definition.of(schema, layout), self._table, self._ttl_ms)
        version = layout.version
        for _ in range(_ATTEMPTS):
            with self._explained(), watching(self._client, self._versions) as transaction:
                versions = self._definitions()
                old = versions.get(version)
                versions[version] = old.after(wanted) if old else wanted
                shown_columns(versions.values())
                if transaction.run(
                    [
                        ("HSET", self._versions, version, versions[version].to_text()),
                        ("HSETNX", self._view, "version", version),
                    ]
                ):
                    return
        raise self._conflict()

    def write(self, rows: pyarrow.Table, query: str, batch_id: int, version: int) -> bool:
        """As the contract says."""
        note = self._note(query)
        for _ in range(_ATTEMPTS):
            with self._explained(), watching(self._client, note, self._versions, self._owners) as transaction:
                if self._owner is not None:
                    self.require_owner(self._owner, self._owners_of(version))
                last = transaction.ask("GET", note)
                if last is not None and int(last) >= batch_id:
                    return False
                definition = self._definition(version)
                batch = Batch.of(rows, definition)
                index = self._index(version, "speed")
                self._check_index(transaction, index)
                count = f"{self._table}:pieces:{escaped(query)}"
                put = commands(index, batch, definition, self._now_us(), f"{query}-{batch_id}", count)
                if transaction.run(noted_commands(put, note, count, batch_id)):
                    return True
        raise self._conflict()

    def last_batch(self, query: str) -> int | None:
        """As the contract says."""
        with self._explained():
            last: Any = self._client.get(self._note(query))
        return None if last is None else int(last)

    def read(self) -> pyarrow.Table:
        """As the contract says; the columns are those of all versions."""
        with self._explained():
            versions = self._definitions()
            if not versions:
                raise not_prepared(self._table)
            schema = shown_columns(versions.values())
            answer = self._client.eval(scripts.READ, 1, self._view, self._table, *schema.names)
        return from_answer(self._answer(answer), schema)

    def expire(self, now: datetime) -> int:
        """As the contract says, in every version and layer."""
        count = 0
        with self._explained():
            for version, definition in self._definitions().items():
                if definition.layout.ttl_ms is not None:
                    oldest = microseconds(now - definition.layout.ttl_ms * MILLISECOND)
                    count += sum(self._remove(self._index(version, layer), "-inf", str(oldest)) for layer in _LAYERS)
        return count

    def write_batch_layer(self, rows: pyarrow.Table, version: int) -> None:
        """As the contract says. With a key, the same rows again change nothing."""
        for _ in range(_ATTEMPTS):
            with self._explained(), watching(self._client, self._view, self._versions) as transaction:
                definition = self._definition(version)
                batch = Batch.of(rows, definition)
                check_unseen(batch, definition, self._live())
                index = self._index(version, "batch")
                self._check_index(transaction, index)
                if transaction.run(commands(index, batch, definition, self._now_us(), uuid.uuid4().hex)):
                    return
        raise self._conflict()

    def clear_batch_layer(self, version: int) -> None:
        """As the contract says."""
        with self._explained():
            window_end(self._definition(version))
            live = self._live()
            seen = live.until if live and live.version == version else None
            self._remove(self._index(version, "batch"), f"({microseconds(seen)}" if seen else "-inf", "+inf")

    def switch(self, version: int, until: datetime | None, *, unless_after: Written | None = None) -> bool:
        """As the contract says: one hash changes."""
        with self._explained():
            if until is not None:
                window_end(self._definition(version))
            keys = [self._view, self._versions, self._untils]
            values = [str(version), "" if until is None else str(microseconds(until))]
            if unless_after is not None:
                keys.append(self._note(unless_after.query))
                values.append(str(unless_after.batch_id))
            return self._is_switched(scripts.SWITCH, version, keys, values)

    def show_new(self, version: int) -> bool:
        """As the contract says."""
        with self._explained():
            keys = [self._view, self._versions, self._untils]
            return self._is_switched(scripts.SHOW_NEW, version, keys, [str(version), ""])

    def definition(self, version: int) -> Definition:
        """As the contract says."""
        with self._explained():
            return self._definition(version)

    def versions(self) -> list[Version]:
        """As the contract says."""
        with self._explained():
            live = self._live()
            untils: dict[bytes, bytes] = self._answer(self._client.hgetall(self._untils))
            return [
                live
                if live and live.version == version
                else Version(version, _until(untils.get(name)), is_live=False, was_shown=name in untils)
                for version in self._definitions()
                for name in [str(version).encode()]
            ]

    def drop_version(self, version: int) -> None:
        """As the contract says."""
        with self._explained():
            definition = self._definition(version)
            keys = (self._view, self._versions, self._untils, *[self._index(version, layer) for layer in _LAYERS])
            if not self._client.eval(scripts.DROP, len(keys), *keys, str(version)):
                raise is_shown(definition)

    def found(self, version: int, asking: Asking) -> Found:
        """As the contract says. There is no list of queries that have written: those of the home are looked up."""
        with self._explained():
            return self._found(version, asking)

    def claim(self, owner: Owner, asking: Asking, check: Check) -> None:
        """As the contract says: nothing is written if another claim came first."""
        for _ in range(_ATTEMPTS):
            with self._explained(), watching(self._client, self._owners, self._versions) as transaction:
                check(self._found(owner.version, asking))
                field = json.dumps([owner.version, owner.pipeline, owner.query])
                if transaction.run([("HSET", self._owners, field, owner.model_dump_json())]):
                    self._owner = owner
                    return
        raise self._conflict()

    def owners(self) -> tuple[Owner, ...]:
        """As the contract says."""
        with self._explained():
            texts: dict[bytes, bytes] = self._answer(self._client.hgetall(self._owners))
        return tuple(Owner.model_validate_json(text) for text in texts.values())

    def drop(self) -> None:
        """As the contract says. The next call finishes an interrupted one: owners are deleted last."""
        with self._explained():
            for version in self._definitions():
                for layer in _LAYERS:
                    self._remove(self._index(version, layer), "-inf", "+inf")
            for kind in ("batches", "pieces"):
                for key in self._client.scan_iter(match=f"{self._table}:{kind}:*", count=_KEYS_AT_ONCE):
                    self._client.unlink(key)
            self._client.unlink(self._view, self._versions, self._untils)
            self._client.unlink(self._owners)

    def close(self) -> None:
        """As the contract says."""
        self._client.close()

    def _owners_of(self, version: int) -> tuple[Owner, ...]:
        return tuple(one for one in self.owners() if one.version == version)

    def _found(self, version: int, asking: Asking) -> Found:
        recorded = self._owners_of(version)
        if version not in self._definitions():
            return Found(recorded)
        has_rows = any(self._answer(self._client.zcard(self._index(version, layer))) for layer in _LAYERS)
        last = self.last_batch(asking.query_id) if asking.query_id else None
        is_known = any(self.last_batch(one) is not None for one in asking.home_ids)
        return Found(recorded, last, has_rows and not is_known, not has_rows)

    def _note(self, query: str) -> str:
        """The key of the number of a query's newest batch."""
        return f"{self._table}:batches:{escaped(query)}"

    def _index(self, version: int, layer: str) -> str:
        return f"{self._table}:{version}:{layer}"

    def _now_us(self) -> int:
        return microseconds(self._clock())

    def _remove(self, index: str, first: str, last: str) -> int:
        removed: int = self._answer(self._client.eval(scripts.REMOVE, 1, index, first, last))
        return removed

    def _is_switched(self, script: str, version: int, keys: list[str], values: list[str]) -> bool:
        answer = self._client.eval(script, len(keys), *keys, *values)
        if answer == scripts.NO_VERSION:
            raise not_prepared(self._table, version)
        return bool(answer == scripts.SWITCHED)

    def _live(self) -> Version | None:
        version, until = self._answer(self._client.hmget(self._view, ["version", "until"]))
        return None if version is None else Version(int(version), _until(until), is_live=True, was_shown=True)

    def _definitions(self) -> dict[int, Definition]:
        texts: dict[bytes, bytes] = self._answer(self._client.hgetall(self._versions))
        known = {int(version): text.decode() for version, text in texts.items()}
        return {version: Definition.from_text(known[version], self._table, version) for version in sorted(known)}

    def _definition(self, version: int) -> Definition:
        definition = self._definitions().get(version)
        if definition is None:
            raise not_prepared(self._table, version)
        return definition

    def _check_index(self, transaction: Transaction, index: str) -> None:
        """Check first: Redis would not undo the commands before the one that failed at a foreign key."""
        if transaction.ask("TYPE", index) not in (b"none", b"zset"):
            raise StoreRefused(
                f"Redis, table {self._table}: the key {index} is not this store's", "Delete or rename it."
            )

    @staticmethod
    def _answer(answer: Any) -> Any:
        """The library's types include those of an asynchronous client; this one is not."""
        return answer

    def _conflict(self) -> StoreAway:
        return StoreAway(f"Redis, table {self._table}: others changed it at each of {_ATTEMPTS} attempts", "Try again.")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except redis.RedisError as error:
            raise self._explanation(error) from error

    def _explanation(self, error: redis.RedisError) -> StoreError:
        message = f"Redis, table {self._table}: {str(error).rstrip('.')}"
        if isinstance(error, redis.AuthenticationError | redis.exceptions.AuthorizationError):
            return StoreDenied(message, "Check user and password in the address, and what the user may do.")
        if isinstance(error, redis.ConnectionError | redis.TimeoutError):
            return StoreAway(message, _UP)
        is_short = isinstance(error, redis.ReadOnlyError | redis.OutOfMemoryError) or str(error).startswith(
            _SHORTAGE_ERRORS
        )
        return StoreAway(message, _NO_ROOM) if is_short else StoreRefused(message)


def _until(value: bytes | None) -> datetime | None:
    return moment_of(int(value)) if value else None
