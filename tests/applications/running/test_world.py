"""A generator, a broker that dies, an actuator that dies, and an account that is right in spite of it. Without Spark."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.applications.running.plain_intake import PlainIntake

from catchment.applications.running.account import Account
from catchment.applications.running.layout import Layout, lay_out
from catchment.applications.running.ledger import Ledger
from catchment.applications.running.processes import BrokerChild, Child
from catchment.applications.running.reconciling import clean_rows, command_differences
from catchment.bench.peers.server import free_port
from catchment.client.arrow_api import read_arrow
from catchment.client.errors import ClientError

_DEADLINE_S = 60.0
_GENERATING = "catchment.applications.running.generating"
_ACTING = "catchment.applications.running.acting"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s, "it took too long"
        time.sleep(0.05)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerChild]:
    child = BrokerChild(tmp_path, free_port())
    child.start()
    yield child
    child.stop()


@pytest.fixture
def layout(broker: BrokerChild, tmp_path: Path) -> Layout:
    """The main job, its topics made as Spark would make them."""
    found = lay_out("emergency", tmp_path)
    assert found.commands is not None
    topics = (found.source, *found.tables, found.clean, found.late, found.quarantine, found.commands, found.acted)
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for made in admin.create_topics([NewTopic(topic, 2) for topic in topics]).values():
        made.result(_DEADLINE_S)
    return found


def generator(layout: Layout, servers: str, *arguments: str) -> Child:
    options = ["--servers", servers, "--topic", layout.source, "--ledger", str(layout.ledger), *arguments]
    return Child("generator", [_GENERATING, layout.name, *options], layout.folder / "generator.log")


def copies_in_log(layout: Layout, servers: str) -> Counter[int]:
    headers = read_arrow(layout.source, servers, columns=["headers"]).column("headers").to_pylist()
    return Counter(int(one[0]["value"]) for one in headers)


def has_records(layout: Layout, servers: str, count: int) -> bool:
    return sum(copies_in_log(layout, servers).values()) >= count


def test_the_log_has_what_the_ledger_says_though_the_broker_was_killed(broker: BrokerChild, layout: Layout) -> None:
    child = generator(layout, broker.servers, "--rate", "1000")
    child.start()
    for _ in range(3):
        wanted = sum(copies_in_log(layout, broker.servers).values()) + 500
        wait_until(partial(has_records, layout, broker.servers, wanted))
        broker.kill()
        broker.start()
    assert child.stop() == 0, child.log_tail()
    with Ledger(layout.ledger) as ledger:
        assert ledger.resent() == {}
        assert copies_in_log(layout, broker.servers) == {one.number: one.copies for one in ledger.read_from(0)}


def test_the_account_follows_a_pipeline_through_the_death_of_the_broker(broker: BrokerChild, layout: Layout) -> None:
    child = generator(layout, broker.servers, "--rate", "2000", "--count", "4000")
    child.start()
    intake = PlainIntake(layout, broker.servers)
    account = Account(layout, broker.servers)
    deaths = iter((1_000, 2_500))
    death = next(deaths)

    def is_done() -> bool:
        nonlocal death
        intake.batch(most=700)
        try:
            account.refresh()
        except ClientError:
            return False
        assert account.balance.is_even, account.balance.faults
        if account.totals.arrived > death:
            death = next(deaths, 1_000_000)
            broker.kill()
            broker.start()
        return child.exit_code is not None and account.lag == 0

    wait_until(is_done)
    account.refresh()
    account.close()
    totals = account.totals
    assert child.exit_code == 0, child.log_tail()
    assert account.balance.is_even
    assert totals.on_the_way == 0
    assert totals.stored == len(clean_rows(layout, broker.servers))
    assert min(totals.duplicate, totals.late, totals.rejected) > 0
    assert account.balance.compare_with_ledger({}) == []


def test_an_intake_that_loses_a_record_is_found_out(broker: BrokerChild, layout: Layout) -> None:
    child = generator(layout, broker.servers, "--rate", "5000", "--count", "500")
    child.start()
    wait_until(lambda: child.exit_code is not None)
    intake = PlainIntake(layout, broker.servers, loses=123)
    account = Account(layout, broker.servers)
    intake.batch(most=10_000)
    account.refresh()
    account.close()
    assert not account.balance.is_even
    assert account.balance.faults == ["event 123 was read and is nowhere"]


def test_records_of_others_are_counted_apart(broker: BrokerChild, layout: Layout) -> None:
    producer = Producer({"bootstrap.servers": broker.servers})
    producer.produce(layout.source, b'{"id": "mine", "district": "Harbour"}')
    producer.produce(layout.source, b"{}", headers=[("id", b"999999999999")])
    assert producer.flush(_DEADLINE_S) == 0
    account = Account(layout, broker.servers)
    account.refresh()
    account.close()
    assert account.foreign == 2
    assert account.totals.arrived == 0
    assert account.balance.is_even


def actuator_of(layout: Layout, servers: str) -> Child:
    assert layout.commands is not None
    options = ["--servers", servers, "--commands", layout.commands, "--acted", layout.acted]
    return Child("actuator", [_ACTING, layout.name, *options], layout.folder / "actuator.log")


def give_commands(layout: Layout, producer: Producer, numbers: range) -> None:
    assert layout.commands is not None
    for number in numbers:
        alert = {"id": str(number), "alert": "burst", "message": "m", "row": {"district": "Harbour"}}
        producer.produce(layout.commands, json.dumps(alert))
    assert producer.flush(_DEADLINE_S) == 0


def is_answered(account: Account, count: int) -> bool:
    account.refresh()
    return sum(one.acknowledgements for one in account.commands.values()) >= count


def test_each_command_is_acted_upon_once_though_the_broker_is_killed(broker: BrokerChild, layout: Layout) -> None:
    actuator = actuator_of(layout, broker.servers)
    actuator.start()
    account = Account(layout, broker.servers)
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    for first in range(0, 30, 10):
        give_commands(layout, producer, range(first, first + 10))
        broker.kill()
        broker.start()
        wait_until(partial(is_answered, account, first + 10))
    account.close()
    assert actuator.stop() == 0, actuator.log_tail()
    assert len(account.commands) == 30
    assert command_differences(account) == []


def test_each_command_is_acted_upon_once_though_the_actuator_is_killed(broker: BrokerChild, layout: Layout) -> None:
    actuator = actuator_of(layout, broker.servers)
    account = Account(layout, broker.servers)
    producer = Producer({"bootstrap.servers": broker.servers})
    for round_number in range(3):
        actuator.start()
        give_commands(layout, producer, range(10 * round_number, 10 * round_number + 10))
        # Of all but the last round some are still to be answered, by the actuator that comes after.
        wait_until(partial(is_answered, account, 10 * round_number + (10 if round_number == 2 else 1)))
        actuator.kill()
    account.close()
    assert len(account.commands) == 30
    assert command_differences(account) == []
