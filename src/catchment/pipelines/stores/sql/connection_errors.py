"""Why a PostgreSQL does not let one in: by its code for it, which is the same in every language that the server may speak.

libpq tells the code of an error in a statement, but of a connection that was not made only the server's words. Its trace has both, so
the connection is tried once more with that. A server that is starting, or has no connection left, says so by a code as well.
"""

from __future__ import annotations

import re
import select
import tempfile
import time
from typing import Final

import psycopg
from psycopg import pq

_CODE: Final = re.compile(rb'\tErrorResponse\t.*? C "([0-9A-Z]{5})"')
_LONGEST_S: Final = 10.0
NO_PASSWORD: Final = "28P01"
"""The code of a password that is wrong stands for one that is missing as well."""


def code_of_refusal(address: str, error: psycopg.OperationalError) -> str | None:
    """The server's code for a connection that failed with an error; None if no server has answered."""
    if error.sqlstate is not None or isinstance(error, psycopg.errors.ConnectionTimeout):
        return error.sqlstate
    if error.pgconn is not None and error.pgconn.needs_password:
        return NO_PASSWORD
    with tempfile.TemporaryFile() as trace:
        connection = pq.PGconn.connect_start(address.encode())
        try:
            connection.trace(trace.fileno())
            _wait(connection)
            connection.untrace()
        except psycopg.Error:
            # Not every platform's libpq has a trace.
            return None
        finally:
            connection.finish()
        trace.seek(0)
        codes = _CODE.findall(trace.read())
    return codes[-1].decode() if codes else None


def _wait(connection: pq.abc.PGconn) -> None:
    """Until the connection is made, or is not; for so long."""
    deadline_s = time.monotonic() + _LONGEST_S
    while connection.status != pq.ConnStatus.BAD and (left_s := deadline_s - time.monotonic()) > 0:
        status = connection.connect_poll()
        if status not in (pq.PollingStatus.READING, pq.PollingStatus.WRITING):
            return
        sockets = [connection.socket]
        is_reading = status == pq.PollingStatus.READING
        select.select(sockets if is_reading else [], [] if is_reading else sockets, [], left_s)
