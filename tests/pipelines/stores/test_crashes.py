"""Whatever dies at whichever moment, a batch is in the store as a whole or not at all, and repeating makes it whole once."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.pipelines.stores.boards import board, counts, rows
from tests.pipelines.stores.cutting_proxy import CuttingProxy
from tests.pipelines.stores.servers import PostgresServer, RedisServer
from tests.pipelines.stores.story import check, prepare, tell

from catchment.pipelines.stores.store import RealTimeStore
from catchment.pipelines.stores.store_errors import StoreAway

ROOT = Path(__file__).parents[3]
PATIENCE_S = 300
MOST_MESSAGES = 400
RESTARTS = 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_writer_killed_at_any_statement_leaves_whole_batches_and_the_next_one_goes_on(
    address: str, when: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipelines.stores.dying_writer", address, when],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1000,
    )
    assert done.returncode == 0, done.stderr
    making, writing, showing = map(int, done.stdout.split())
    # Both tables need several statements to be made, and several for a batch. To show a version is one script in Redis.
    assert min(making, writing) >= 8
    assert showing >= 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["postgresql", "redis"])
def test_a_connection_cut_at_any_message_costs_a_repetition_and_nothing_else(
    kind: str, when: str, request: pytest.FixtureRequest
) -> None:
    address: str = request.getfixturevalue(f"{kind}_address")
    port = urlsplit(address).port
    assert port is not None
    prepare(address, when)
    failures = 0
    with CuttingProxy(port) as proxy:
        through = address.replace(str(port), str(proxy.port), 1)
        for count in itertools.count(1):
            assert count < MOST_MESSAGES
            proxy.arm(count, when)
            try:
                tell(through, when, count)
            except StoreAway:
                failures += 1
                check(address, when, {count, count - 1 or None})
                tell(through, when, count)
            check(address, when, {count})
            if not proxy.has_cut:
                break
    assert failures >= 8


def write_many(store: RealTimeStore, batches: int, written: list[int], failures: list[StoreAway]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while len(written) < batches and time.monotonic() < deadline_s:
        batch_id = len(written)
        try:
            store.write(rows([("north", batch_id, batch_id)]), "query", batch_id, 1)
            written.append(batch_id)
        except StoreAway as error:
            failures.append(error)


def restarted_in_the_middle(server: PostgresServer | RedisServer, address: str, how: signal.Signals) -> None:
    batches = 400
    written: list[int] = []
    failures: list[StoreAway] = []
    with board(address) as store:
        writer = threading.Thread(target=write_many, args=(store, batches, written, failures))
        writer.start()
        for restart in range(RESTARTS):
            goal = (restart + 1) * batches // (RESTARTS + 2)
            deadline_s = time.monotonic() + PATIENCE_S
            while len(written) < goal:
                assert time.monotonic() < deadline_s, failures[-1:]
                time.sleep(0.001)
            try:
                server.stop(how)
                failed = len(failures)
                while len(failures) == failed:
                    assert time.monotonic() < deadline_s
                    time.sleep(0.001)
            finally:
                server.start()
        writer.join()
        assert len(written) == batches, failures[-1:]
        assert counts(store.read()) == list(range(batches))
        assert store.last_batch("query") == batches - 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_postgresql_may_be_restarted_in_the_middle(
    postgresql_server: PostgresServer, postgresql_address: str, how: signal.Signals
) -> None:
    restarted_in_the_middle(postgresql_server, postgresql_address, how)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_redis_may_be_restarted_in_the_middle(
    redis_server: RedisServer, redis_address: str, how: signal.Signals
) -> None:
    restarted_in_the_middle(redis_server, redis_address, how)
