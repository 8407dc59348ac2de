"""One run of the program under kills: which process is killed when, that the program continues, and what it has written in the end."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.copy_watch import Follower
from tests.broker.ledger import Ledger
from tests.checkers.history import Outcome, Poll, Transaction
from tests.checkers.log_checker import Anomaly, check
from tests.client.logs import KafkaLogs
from tests.spark.soak.driver_process import DriverProcess
from tests.spark.soak.killable_servers import KillableServer
from tests.spark.soak.plan import COUNTED, MAPPED, PARTITIONS, SOURCE, Plan
from tests.spark.soak.reconciling import (
    Places,
    batch_ends,
    counted_values,
    mapped_values,
    misplaced,
    reconcile,
    values_by_partition,
)
from tests.spark.soak.wire_proxy import END_TXN, Trap

_logger = logging.getLogger(__name__)

_PROGRESS_S: Final = 300.0
_PAUSE_S: Final = 0.01
_LOOK_S: Final = 0.03
_LONGEST_LIFE_S: Final = 1.5
_TRAPS: Final = {
    "before commit": Trap(END_TXN),
    "between commits": Trap(END_TXN, passes=1),
    "after commit": Trap(END_TXN, holds_answer=True),
}
OUTPUTS: Final = (MAPPED, COUNTED)


class Campaign:
    """Input that never stops, the program, and a reader that follows each output from the first record on."""

    def __init__(self, server: KillableServer, plan: Plan, random: Random) -> None:
        self.driver = DriverProcess(plan)
        self.kills: Counter[str] = Counter()
        self.ledger = Ledger(server.bootstrap_servers, SOURCE, PARTITIONS[SOURCE], pause_s=_PAUSE_S)
        self._server = server
        self._logs = KafkaLogs(server.bootstrap_servers)
        self._random = random
        self._followers = {
            name: Follower(server.bootstrap_servers, name, PARTITIONS[name], "follower") for name in OUTPUTS
        }

    def close(self) -> None:
        self.driver.kill()
        for follower in self._followers.values():
            follower.stop()

    def strike(self, kill: str) -> None:
        """Wait until both outputs have grown, then kill at a random moment, or at the one that the kill names."""
        self.wait_for_growth()
        self.kills[kill] += 1
        _logger.info("%s %s", self.kills.total(), kill)
        strikes: dict[str, Callable[[], object]] = {
            "driver": self.driver.kill,
            "jvm": self.driver.kill_jvm,
            "python": partial(self._hit, lambda: self.driver.kill_python(self._random)),
            "committer": partial(self._hit, self.driver.kill_committers),
            "broker": self._bounce,
            "driver and broker": self._kill_both,
        }
        moment, _, victim = kill.rpartition(": ")
        if moment:
            self._spring(moment)
        else:
            # The time of a kill is random, so there is no condition to wait for.
            time.sleep(self._random.uniform(0, _LONGEST_LIFE_S))
        strikes[victim]()
        self._server.proxy.disarm()

    def wait_for_growth(self) -> None:
        before = {name: follower.count for name, follower in self._followers.items()}
        self.wait(
            lambda: all(follower.count > before[name] for name, follower in self._followers.items()),
            "the outputs do not grow",
        )

    def finish(self) -> list[Anomaly]:
        """Stop the input, let the program end its work, and hold all outputs against what they must be."""
        self.ledger.finish()
        assert self.ledger.failures == []
        places, checkpoint = self.ledger.acknowledged, self.driver.plan.checkpoint(COUNTED)
        mapped = mapped_values(places)
        self.wait(lambda: batch_ends(checkpoint)[-1] == _ends(places), "not all is counted")
        counted = counted_values(places, checkpoint)
        for name, expected in ((MAPPED, _multiset(mapped)), (COUNTED, counted)):
            self.wait(partial(self._has_seen, name, expected), f"{name} is not complete")
        # The driver lives until no transaction is open any more: to end those of its dead tasks is its own work.
        self._settle()
        self.driver.kill()
        polls = {name: self._read_again(name) for name in OUTPUTS}
        found = {name: values_by_partition(polls[name]) for name in OUTPUTS}
        return [
            *reconcile(_multiset(mapped), _multiset(found[MAPPED])),
            *misplaced(mapped, found[MAPPED]),
            *reconcile(counted, _multiset(found[COUNTED])),
            *(anomaly for name in OUTPUTS for anomaly in check([*self._followers[name].polls, *polls[name]])),
        ]

    def _has_seen(self, topic: str, expected: Counter[str]) -> bool:
        follower = self._followers[topic]
        return follower.count >= expected.total() and not expected - _multiset(values_by_partition(follower.polls))

    def _settle(self) -> None:
        for name in OUTPUTS:
            for partition in range(PARTITIONS[name]):
                self._logs.settle(name, partition)

    def _read_again(self, topic: str) -> list[Transaction]:
        """All of a topic to its end, by a second reader."""
        polls = []
        for partition in range(PARTITIONS[topic]):
            messages = self._logs.messages(topic, partition)
            records = tuple((message.offset() or 0, (message.value() or b"").decode()) for message in messages)
            polls.append(Transaction("again", (Poll(partition, records),), Outcome.COMMITTED, 0, 0))
        return polls

    def _spring(self, moment: str) -> None:
        trap = replace(_TRAPS[moment], is_sprung=threading.Event())
        self._server.proxy.arm(trap)
        self.wait(trap.is_sprung.is_set, "no transaction is ended")

    def _hit(self, strike: Callable[[], str | None]) -> None:
        """A process that comes and goes is struck as soon as it is there."""
        self.wait(lambda: strike() is not None, "there is no process to kill")

    def _kill_both(self) -> None:
        self.driver.kill()
        self._bounce()

    def _bounce(self) -> None:
        self._server.kill()
        self._server.revive()

    def wait(self, condition: Callable[[], bool], complaint: str) -> None:
        deadline_s = time.monotonic() + _PROGRESS_S
        while not condition():
            assert time.monotonic() < deadline_s, (
                f"{complaint} after {dict(self.kills)}; "
                f"{[follower.count for follower in self._followers.values()]} of {len(self.ledger.acknowledged)}\n"
                f"{self.driver.log_tail()}\n{self._server.log_tail()}"
            )
            self.driver.ensure()
            time.sleep(_LOOK_S)


@contextmanager
def campaign(server: KillableServer, plan: Plan, random: Random) -> Iterator[Campaign]:
    """With topics made and the input flowing; nothing of it is left behind."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    for created in admin.create_topics([NewTopic(name, count, 1) for name, count in PARTITIONS.items()]).values():
        created.result(30)
    running = Campaign(server, plan, random)
    try:
        running.ledger.start()
        yield running
    finally:
        running.close()


def _multiset(by_partition: dict[int, list[str]]) -> Counter[str]:
    return Counter(value for values in by_partition.values() for value in values)


def _ends(places: Places) -> dict[int, int]:
    """Behind the last record of each partition; nothing but the records is in them."""
    return dict(Counter(partition for partition, _ in places.values()))
