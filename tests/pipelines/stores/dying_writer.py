"""Makes tables and tells them the story, each time in a process that kills itself, as `kill -9` would, a statement later.

    python -m tests.pipelines.stores.dying_writer ADDRESS WHEN

WHEN is `before` or `after` the statement. After each death it looks at what there is, repeats the work and looks again.
Prints how many times it died while making the tables, while writing, and while showing a new version.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import redis.connection
from tests.examples.dying import deadly
from tests.pipelines.stores.boards import KEY, SCHEMA
from tests.pipelines.stores.story import check, prepare, tell

from catchment.pipelines.stores.store import Layout
from catchment.pipelines.stores.store_opening import open_store

_MOST_STATEMENTS = 500
_LIVE, _LEFT, _UNSEEN = (True, True), (False, True), (False, False)


def arm(address: str, when: str, count: int) -> None:
    """Let this process die at its count-th statement."""
    doomed: dict[str, Callable[..., Any]] = {}

    def shared(function: Callable[..., Any]) -> Callable[..., Any]:
        # All kinds of statements are counted together: what dies is the first that is called, whichever it is.
        chosen = doomed.setdefault("any", deadly(lambda call: call(), when, count))
        return lambda *arguments, **options: chosen(partial(function, *arguments, **options))

    if address.startswith("sqlite"):
        names = ("execute", "executemany")
        counted = type(
            "Counted", (sqlite3.Connection,), {name: shared(getattr(sqlite3.Connection, name)) for name in names}
        )
        vars(sqlite3)["connect"] = partial(sqlite3.connect, factory=counted)
    elif address.startswith("redis"):
        base: Any = redis.connection.AbstractConnection
        base.send_packed_command = shared(base.send_packed_command)
    else:
        for owner, name in ((psycopg.Connection, "execute"), (psycopg.Cursor, "copy"), (psycopg.Copy, "write")):
            setattr(owner, name, shared(getattr(owner, name)))


def die_at(address: str, when: str, count: int, work: Callable[[], None]) -> bool:
    """Do some work in a process that dies at its count-th statement; whether it did."""
    child = os.fork()
    if child == 0:
        arm(address, when, count)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def deaths_in_preparing(address: str, when: str) -> int:
    for count in range(1, _MOST_STATEMENTS):
        name = f"{when}_{count}"
        if not die_at(address, when, count, partial(prepare, address, name)):
            return count - 1
        prepare(address, name)
        check(address, name, {None})
    raise AssertionError


def deaths_in_writing(address: str, when: str) -> int:
    prepare(address, when)
    for count in range(1, _MOST_STATEMENTS):
        has_died = die_at(address, when, count, partial(tell, address, when, count))
        check(address, when, {count, count - 1 or None})
        tell(address, when, count)
        check(address, when, {count})
        if not has_died:
            return count - 1
    raise AssertionError


def deaths_in_showing(address: str, when: str) -> int:
    for count in range(1, _MOST_STATEMENTS):
        name = f"shown_{when}_{count}"
        with open_store(address, name) as store:
            for version in (1, 2):
                store.prepare(SCHEMA, Layout(name, KEY, version))
        has_died = die_at(address, when, count, partial(show_second, address, name))
        assert shown(address, name) in ([_LIVE, _UNSEEN], [_LEFT, _LIVE])
        show_second(address, name)
        assert shown(address, name) == [_LEFT, _LIVE]
        if not has_died:
            return count - 1
    raise AssertionError


def show_second(address: str, name: str) -> None:
    with open_store(address, name) as store:
        store.show_new(2)


def shown(address: str, name: str) -> list[tuple[bool, bool]]:
    with open_store(address, name) as store:
        return [(one.is_live, one.was_shown) for one in store.versions()]


def main() -> None:
    address, when = sys.argv[1:]
    deaths = (deaths_in_preparing(address, when), deaths_in_writing(address, when), deaths_in_showing(address, when))
    sys.stdout.write(" ".join(map(str, deaths)) + "\n")


if __name__ == "__main__":
    main()
