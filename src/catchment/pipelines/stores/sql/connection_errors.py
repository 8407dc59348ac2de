"""The SQLSTATE of a rejected PostgreSQL connection, which does not depend on the language of the server.

libpq reports the SQLSTATE of a failed statement, but only the message of a failed connection. Its trace has both, so
the connection is tried once more with a trace. A server that is starting, or has no connection left, answers with a SQLSTATE as well.
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
"""The code of a wrong password, used for a missing one as well."""


def code_of_refusal(address: str, error: psycopg.OperationalError) -> str | None:
    """The SQLSTATE of a failed connection; None if no server has answered."""
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
            # Not every platform's libpq supports a trace.
            return None
        finally:
            connection.finish()
        trace.seek(0)
        codes = _CODE.findall(trace.read())
    return codes[-1].decode() if codes else None


def _wait(connection: pq.abc.PGconn) -> None:
    """Wait until the connection succeeds or fails, for `_LONGEST_S` at most."""
    deadline_s = time.monotonic() + _LONGEST_S
    while connection.status != pq.ConnStatus.BAD and (left_s := deadline_s - time.monotonic()) > 0:
        status = connection.connect_poll()
        if status not in (pq.PollingStatus.READING, pq.PollingStatus.WRITING):
            return
        sockets = [connection.socket]
        is_reading = status == pq.PollingStatus.READING
        select.select(sockets if is_reading else [], [] if is_reading else sockets, [], left_s)
