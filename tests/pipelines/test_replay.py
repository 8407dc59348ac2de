"""A replay of a quarantine that is killed at the worst moments, and repeated, sends each record back once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.client.settled import read_settled
from tests.spark.soak.killable_servers import killable_server
from tests.spark.soak.wire_proxy import END_TXN, Trap

from catchment.cli.options import BOOTSTRAP_VARIABLE
from catchment.pipelines import quarantine

RECORDS: Final = 5 * quarantine._AT_ONCE
DEADLINE_S: Final = 300.0


def test_each_record_goes_back_once_whenever_its_replay_is_killed(tmp_path: Path) -> None:
    with killable_server("catchment", tmp_path) as server:
        fill_quarantine(server.bootstrap_servers)
        for trap in (
            # The second transaction is never committed; then the first one is, but the answer is lost; then the next but one.
            Trap(END_TXN, passes=1),
            Trap(END_TXN, holds_answer=True),
            Trap(END_TXN, passes=1, holds_answer=True),
        ):
            server.proxy.arm(trap)
            replaying = start_replay(server.bootstrap_servers)
            assert trap.is_sprung.wait(DEADLINE_S), replaying.communicate()
            replaying.kill()
            replaying.communicate()
            server.proxy.disarm()

        said = finished(start_replay(server.bootstrap_servers))
        again = finished(start_replay(server.bootstrap_servers))

        sent = read_settled("reports", server.bootstrap_servers, ["value"]).column("value").to_pylist()
        assert Counter(sent) == Counter(b"%d" % number for number in range(RECORDS))
        # One of the first replay, one of the second, and two of the third went through before they were killed.
        before = 4 * quarantine._AT_ONCE
        assert said == {"sent": RECORDS - before, "left": [], "sent_before": before, "without_origin": []}
        assert again == {"sent": 0, "left": [], "sent_before": RECORDS, "without_origin": []}


def fill_quarantine(servers: str) -> None:
    """As a pipeline does."""
    admin = AdminClient({"bootstrap.servers": servers})
    topics = ["city.quarantine", "city.quarantine.replayed", "reports"]
    for made in admin.create_topics([NewTopic(name, 2) for name in topics]).values():
        made.result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": servers})
    facts: list[tuple[str, str | bytes | None]] = [("catchment.error", b"has no at"), ("catchment.topic", b"reports")]
    for number in range(RECORDS):
        origin: list[tuple[str, str | bytes | None]] = [
            ("catchment.partition", b"0"),
            ("catchment.offset", b"%d" % number),
        ]
        producer.produce("city.quarantine", b"%d" % number, headers=facts + origin, partition=number % 2)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0


def start_replay(servers: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "catchment.cli", "quarantine", "replay", "city", "--execute", "--json"]
    environment = os.environ | {BOOTSTRAP_VARIABLE: servers}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finished(replaying: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The result of an undisturbed replay."""
    output, errors = replaying.communicate(timeout=DEADLINE_S)
    assert replaying.returncode == 0, errors
    said: dict[str, Any] = json.loads(output)
    return said
