"""The log of alerts: all topics or none, exactly once over every kind of death, and one driver at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import asdict, replace

import pyarrow
import pytest
from tests.client.logs import CatchmentLogs, Logs
from tests.pipelines.alerts.alert_world import candidate, connection, ids, new_rule

from catchment.client.errors import TimedOut
from catchment.client.producer import Producer
from catchment.pipelines.alerts.log import AlertLog, AlertsTakenOver
from catchment.pipelines.alerts.writer import AlertWriter
from catchment.testing.embedded import Broker

DYING_DRIVER = """
import json, os, signal, sys
from catchment.client.producer import Producer
from catchment.pipelines.alerts.decisions import Candidate
from catchment.pipelines.alerts.writer import AlertWriter
from catchment.pipelines.alerts.rule import AlertRule
from catchment.spark.options.connection import Connection

servers, rule, candidates, moment = json.loads(sys.argv[1])
commit = Producer.commit

def dying_commit(self):
    if moment == "before the commit":
        self.flush()
    else:
        commit(self)
    os.kill(os.getpid(), signal.SIGKILL)

Producer.commit = dying_commit
rule = {name: tuple(value) if isinstance(value, list) else value for name, value in rule.items()}
AlertWriter(AlertRule(**rule), Connection(servers)).fire([Candidate(*one) for one in candidates])
"""


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_driver_killed_around_its_commit_leaves_each_alert_once_in_every_topic(logs: Logs, moment: str) -> None:
    rule = new_rule(logs, topics=2, cooldown_ms=1)
    batch = [candidate(rule, "Harbour", 5_000), candidate(rule, "Hill", 6_000), candidate(rule, "Harbour", 5_500)]
    argument = json.dumps([logs.bootstrap_servers, asdict(rule), batch, moment])
    died = subprocess.run(
        [sys.executable, "-c", DYING_DRIVER, argument], capture_output=True, timeout=300, check=False, text=True
    )
    assert died.returncode == -9, died.stderr
    with closing(AlertWriter(rule, connection(logs))) as sink:
        decision = sink.fire(batch)
    expected = [batch[0].id, batch[1].id]
    assert [one.id for one in decision.fired] == (expected if moment == "before the commit" else [])
    for topic in (rule.log_topic, *rule.topics):
        assert ids(logs, topic) == expected


def test_a_second_driver_takes_over_and_the_first_says_so_for_good(logs: Logs) -> None:
    rule = new_rule(logs)
    with closing(AlertWriter(rule, connection(logs))) as first, closing(AlertWriter(rule, connection(logs))) as second:
        first.fire([candidate(rule, "Harbour", 1)])
        second.fire([candidate(rule, "Harbour", 1), candidate(rule, "Harbour", 2)])
        for _ in range(2):
            with pytest.raises(AlertsTakenOver, match=f"another driver of pipeline {rule.pipeline}"):
                first.fire([candidate(rule, "Harbour", 3)])
        # The refusal of the first must not have disturbed the second.
        second.fire([candidate(rule, "Harbour", 4)])
    expected = [candidate(rule, "Harbour", time_us).id for time_us in (1, 2, 4)]
    assert ids(logs, rule.log_topic) == ids(logs, rule.topics[0]) == expected


def test_what_another_alert_fired_is_no_memory_of_ours(catchment_logs: CatchmentLogs) -> None:
    burst = new_rule(catchment_logs)
    # What is not of our writing has no headers, and may have no key.
    catchment_logs.fill(burst.log_topic, [b"another program's"])
    other = replace(burst, name="burst-flood")
    for rule, time_us in ((burst, 1), (burst, 2), (other, 1)):
        with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
            assert len(sink.fire([candidate(rule, "Harbour", time_us)]).fired) == 1
    for rule, count in ((burst, 2), (other, 1)):
        with closing(AlertLog(connection(catchment_logs), rule)) as log:
            assert len(log.read_back()) == count


def test_alerts_behind_an_open_transaction_of_another_alert_are_remembered(catchment_logs: CatchmentLogs) -> None:
    burst = new_rule(catchment_logs)
    with connection(catchment_logs).new_cluster() as cluster:
        other = Producer(cluster, transactional_id=f"{burst.pipeline}-alert-other", transaction_timeout_ms=2_000)
        other.begin()
        other.write(burst.log_topic, pyarrow.table({"key": [b"other:Hill"], "value": [b"{}"]}))
        other.flush()
        with closing(AlertWriter(burst, connection(catchment_logs))) as sink:
            sink.fire([candidate(burst, "Harbour", 1)])
        # The reader waits until the broker has timed the other transaction out.
        with closing(AlertWriter(burst, connection(catchment_logs))) as sink:
            assert sink.fire([candidate(burst, "Harbour", 1)]).repeated == 1
        other.close()
    assert ids(catchment_logs, burst.topics[0]) == [candidate(burst, "Harbour", 1).id]


def test_a_batch_that_could_not_be_written_is_decided_again_from_the_log(
    catchment_logs: CatchmentLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = new_rule(catchment_logs)
    commit = Producer.commit
    failures = iter([True])

    def commit_and_lose_the_answer(self: Producer) -> None:
        commit(self)
        if next(failures, False):
            raise TimedOut("the answer did not come")

    monkeypatch.setattr(Producer, "commit", commit_and_lose_the_answer)
    with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
        decision = sink.fire([candidate(rule, "Harbour", 1)])
        assert (decision.fired, decision.repeated) == ([], 1)
        sink.fire([candidate(rule, "Harbour", 2)])
    assert ids(catchment_logs, rule.topics[0]) == [candidate(rule, "Harbour", time_us).id for time_us in (1, 2)]


def test_a_transaction_that_the_broker_timed_out_is_no_takeover(
    catchment_logs: CatchmentLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = new_rule(catchment_logs)
    monkeypatch.setattr("catchment.pipelines.alerts.log._TRANSACTION_TIMEOUT_MS", 300)
    flush = Producer.flush
    pauses = iter([True])

    def flush_late(self: Producer) -> object:
        written = flush(self)
        if next(pauses, False):
            # The last stable offset reaches the end once the broker has aborted the transaction.
            catchment_logs.settle(rule.log_topic)
        return written

    monkeypatch.setattr(Producer, "flush", flush_late)
    with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
        sink.fire([candidate(rule, "Harbour", 1)])
        sink.fire([candidate(rule, "Harbour", 2)])
    assert next(pauses, None) is None
    assert ids(catchment_logs, rule.topics[0]) == [candidate(rule, "Harbour", time_us).id for time_us in (1, 2)]


def test_a_broker_that_is_killed_again_and_again_loses_and_repeats_nothing() -> None:
    with Broker() as broker:
        logs = CatchmentLogs(broker)
        rule = new_rule(logs)
        fired = threading.Semaphore(0)
        failures: list[BaseException] = []

        def fire_on() -> None:
            try:
                with closing(AlertWriter(rule, connection(logs))) as sink:
                    for time_us in range(100):
                        sink.fire([candidate(rule, "Harbour", time_us), candidate(rule, "Hill", time_us)])
                        fired.release()
            except BaseException as error:
                failures.append(error)

        firing = threading.Thread(target=fire_on)
        firing.start()
        for _ in range(4):
            for _ in range(15):
                assert fired.acquire(timeout=60), failures
            broker.kill()
            broker.start()
        firing.join(60)
        assert failures == []
        expected = [candidate(rule, key, time_us).id for time_us in range(100) for key in ("Harbour", "Hill")]
        assert ids(logs, rule.log_topic) == ids(logs, rule.topics[0]) == expected
