"""A transaction of Redis that is sent in pieces: however large a batch is, a few of its commands are in memory here.

Redis collects the commands after MULTI and runs them together at EXEC, unless a watched key has changed; a connection that
breaks before leaves nothing behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import redis

COMMANDS_AT_ONCE: Final = 8

Command = tuple[str | bytes | int | float, ...]


class Transaction:
    """What is read through it must still hold when `run` is called."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def ask(self, *command: str | bytes) -> Any:
        """The answer to one command, before the transaction's own."""
        self._connection.send_command(*command)
        return self._connection.read_response()

    def run(self, commands: Iterable[Command]) -> bool:
        """All of the commands, or none of them and False where a watched key was changed by somebody else."""
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
