"""Whatever kills the broker, and whenever: what it acknowledged is there, once, and unaltered.

Set CATCHMENT_CRASHES for a longer run, such as 300.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.broker.ledger import Auditor, Ledger, assert_none_lost
from tests.seeds import seed_from

import catchment

CRASHES = int(os.environ.get("CATCHMENT_CRASHES", "20"))
PARTITIONS = 3
TOPIC = "ledger"
PAUSE_S = 0.0002
"""Some thousand records a second: always some in flight, and not so many that reading them back takes all the time."""
SMALL_SEGMENTS = {"log.segment.bytes": str(1024 * 1024)}
_LONGEST_LIFE_S = 0.3
_RECONNECT_SECONDS = 60.0


def live_for_a_while(ledger: Ledger, random: Random) -> None:
    """Let the broker live until it is under load again, and then until any moment."""
    ledger.wait_for_more(_RECONNECT_SECONDS)
    # The moment of the kill is random, so there is no condition to wait for.
    time.sleep(random.uniform(0, _LONGEST_LIFE_S))


def audit(ledger: Ledger, auditor: Auditor) -> None:
    # One step of the interpreter, so that the thread that writes cannot come in between.
    acknowledged = ledger.acknowledged.copy().items()
    auditor.read_on()
    assert_none_lost(acknowledged, auditor.places)
    assert not ledger.failures


@pytest.mark.timeout(1500 + 5 * CRASHES)
def test_kill_9_at_random_moments_loses_alters_and_repeats_nothing(tmp_path: Path) -> None:
    random = Random(seed_from("CATCHMENT_CRASH_SEED"))
    with ChildBroker(tmp_path, SMALL_SEGMENTS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        ledger = Ledger(broker.bootstrap_servers, TOPIC, PARTITIONS, pause_s=PAUSE_S)
        auditor = Auditor(broker.bootstrap_servers, TOPIC, PARTITIONS)
        ledger.start()
        for crash in range(CRASHES):
            live_for_a_while(ledger, random)
            broker.kill()
            broker.start()
            if crash % 5 == 4:
                audit(ledger, auditor)
        ledger.finish()
        audit(ledger, auditor)
        again = Auditor(broker.bootstrap_servers, TOPIC, PARTITIONS)
        audit(ledger, again)
        assert again.places == auditor.places, "records changed their offsets"
        assert len(ledger.acknowledged) > CRASHES
        assert broker.stop() == 0, broker.log_tail()


@pytest.mark.timeout(1500 + 5 * CRASHES)
def test_power_losses_at_random_moments_lose_alter_and_repeat_nothing() -> None:
    random = Random(seed_from("CATCHMENT_CRASH_SEED"))
    with catchment.Broker(settings=SMALL_SEGMENTS) as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        bootstrap_servers = broker.bootstrap_servers
        ledger = Ledger(bootstrap_servers, TOPIC, PARTITIONS, pause_s=PAUSE_S)
        auditor = Auditor(bootstrap_servers, TOPIC, PARTITIONS)
        ledger.start()
        for _ in range(CRASHES):
            live_for_a_while(ledger, random)
            broker.kill(power_loss=random)
            broker.start()
        ledger.finish()
        audit(ledger, auditor)
        assert len(ledger.acknowledged) > CRASHES, "hardly anything was acknowledged"
