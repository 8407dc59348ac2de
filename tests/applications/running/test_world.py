"""A generator, a broker that dies, an actuator that dies, and an account that is right in spite of it. Without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pyarrow
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests import waiting
from tests.applications.running.plain_intake import PlainIntake

from catchment.applications.running.account import Account
from catchment.applications.running.layout import Layout, lay_out
from catchment.applications.running.ledger import Ledger
from catchment.applications.running.processes import BrokerChild, Child
from catchment.applications.running.reconciling import clean_rows, command_differences
from catchment.client.arrow_api import read_arrow
from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError
from catchment.client.offsets import LATEST
from catchment.client.producer import Producer as ArrowProducer
from catchment.ports.network import free_port

_DEADLINE_S = 300.0
_GENERATING = "catchment.applications.running.generating"
_ACTING = "catchment.applications.running.acting"
wait_until = partial(waiting.wait_until, otherwise="it took too long", timeout_s=_DEADLINE_S, pause_s=0.05)


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


@pytest.fixture
def account(broker: BrokerChild, layout: Layout) -> Iterator[Account]:
    with closing(Account(layout, broker.servers)) as kept:
        yield kept


@contextmanager
def generator(layout: Layout, servers: str, *arguments: str) -> Iterator[Child]:
    options = [
        "--servers",
        servers,
        "--topic",
        layout.source,
        "--ledger",
        str(layout.ledger),
        "--lateness",
        str(layout.lateness_s),
    ]
    options += arguments
    child = Child("generator", [_GENERATING, layout.name, *options], layout.folder / "generator.log")
    child.start()
    try:
        yield child
    finally:
        child.kill()


def test_events_are_late_by_the_lateness_of_the_pipeline_even_if_the_user_changed_it(tmp_path: Path) -> None:
    file = lay_out("emergency", tmp_path).file
    file.write_text(file.read_text().replace('lateness="20 seconds"', 'lateness="2 minutes"'))

    assert lay_out("emergency", tmp_path).lateness_s == 120.0


def send_events(layout: Layout, broker: BrokerChild, count: int) -> None:
    with generator(layout, broker.servers, "--rate", "5000", "--count", str(count)) as child:
        wait_until(lambda: child.exit_code is not None)
        assert child.exit_code == 0, child.log_tail()


def copies_in_log(layout: Layout, servers: str) -> Counter[int]:
    headers = read_arrow(layout.source, servers, columns=["headers"]).column("headers").to_pylist()
    return Counter(int(one[0]["value"]) for one in headers)


def has_records(layout: Layout, servers: str, count: int) -> bool:
    return sum(copies_in_log(layout, servers).values()) >= count


def is_settled(account: Account) -> bool:
    account.refresh()
    return account.totals.on_the_way == 0


def test_the_log_has_what_the_ledger_says_though_the_broker_was_killed(broker: BrokerChild, layout: Layout) -> None:
    with generator(layout, broker.servers, "--rate", "1000") as child:
        for _ in range(3):
            wanted = sum(copies_in_log(layout, broker.servers).values()) + 500
            wait_until(partial(has_records, layout, broker.servers, wanted))
            broker.kill()
            broker.start()
        assert child.stop() == 0, child.log_tail()
    with Ledger(layout.ledger) as ledger:
        assert ledger.resent() == {}
        assert copies_in_log(layout, broker.servers) == {one.number: one.copies for one in ledger.read_from(0)}


def test_the_account_follows_a_pipeline_through_the_death_of_the_broker(
    broker: BrokerChild, layout: Layout, account: Account
) -> None:
    source_stage = PlainIntake(layout, broker.servers)
    deaths = iter((1_000, 2_500))
    death = next(deaths)

    def is_done() -> bool:
        nonlocal death
        source_stage.batch(most=700)
        try:
            account.refresh()
        except ClientError:
            return False
        assert account.balance.is_even, account.balance.faults
        if account.totals.arrived > death:
            death = next(deaths, 1_000_000)
            broker.kill()
            broker.start()
        return child.exit_code is not None and account.lag == 0 and account.totals.on_the_way == 0

    with generator(layout, broker.servers, "--rate", "2000", "--count", "4000") as child:
        wait_until(
            is_done, otherwise=lambda: f"{account.totals}, lag {account.lag}, {child.exit_code}: {child.log_tail()}"
        )
        assert child.exit_code == 0, child.log_tail()
    totals = account.totals
    assert totals.stored == len(clean_rows(layout, broker.servers))
    assert min(totals.duplicate, totals.late, totals.rejected) > 0
    assert account.balance.compare_with_ledger({}) == []


def test_rows_are_on_the_way_until_the_log_shows_their_outcome(
    broker: BrokerChild, layout: Layout, account: Account
) -> None:
    send_events(layout, broker, 1)
    with Cluster(broker.servers) as cluster, ArrowProducer(cluster, transactional_id="intake") as source_stage:
        source_stage.begin()
        source_stage.write(layout.clean, pyarrow.table({"value": [b'{"id": "0"}']}))
        source_stage.flush()
        places = [(layout.source, number) for number in cluster.partitions(layout.source)]
        cluster.commit(layout.group, {place: at.offset for place, at in cluster.list_offsets(places, LATEST).items()})
        account.refresh()
        assert account.lag == 0
        assert account.balance.is_even, account.balance.faults
        assert account.totals.on_the_way == 1

        source_stage.commit()

        wait_until(partial(is_settled, account))
        assert account.balance.is_even
        assert account.totals.stored == 1


def test_a_lost_record_is_detected(broker: BrokerChild, layout: Layout, account: Account) -> None:
    send_events(layout, broker, 500)
    source_stage = PlainIntake(layout, broker.servers, loses=123)
    source_stage.batch(most=10_000)
    wait_until(partial(is_settled, account))
    assert not account.balance.is_even
    assert account.balance.faults == ["event 123 was read and is nowhere"]


def test_records_of_others_are_counted_apart(broker: BrokerChild, layout: Layout, account: Account) -> None:
    producer = Producer({"bootstrap.servers": broker.servers})
    producer.produce(layout.source, b'{"id": "mine", "district": "Harbour"}')
    producer.produce(layout.source, b"{}", headers=[("id", b"999999999999")])
    assert producer.flush(_DEADLINE_S) == 0
    account.refresh()
    assert account.foreign == 2
    assert account.totals.arrived == 0
    assert account.balance.is_even


@pytest.fixture
def actuator(broker: BrokerChild, layout: Layout) -> Iterator[Child]:
    assert layout.commands is not None
    options = ["--servers", broker.servers, "--commands", layout.commands, "--acted", layout.acted]
    child = Child("actuator", [_ACTING, layout.name, *options], layout.folder / "actuator.log")
    yield child
    child.kill()


def give_commands(layout: Layout, producer: Producer, numbers: range) -> None:
    assert layout.commands is not None
    for number in numbers:
        alert = {"id": str(number), "alert": "burst", "message": "m", "row": {"district": "Harbour"}}
        producer.produce(layout.commands, json.dumps(alert))
    assert producer.flush(_DEADLINE_S) == 0


def is_answered(account: Account, count: int) -> bool:
    account.refresh()
    return sum(one.acknowledgements for one in account.commands.values()) >= count


def test_each_command_is_acted_on_once_though_the_broker_is_killed(
    broker: BrokerChild, layout: Layout, account: Account, actuator: Child
) -> None:
    actuator.start()
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    for first in range(0, 30, 10):
        give_commands(layout, producer, range(first, first + 10))
        broker.kill()
        broker.start()
        wait_until(partial(is_answered, account, first + 10))
    assert actuator.stop() == 0, actuator.log_tail()
    assert len(account.commands) == 30
    assert command_differences(account) == []


def test_each_command_is_acted_on_once_though_the_actuator_is_killed(
    broker: BrokerChild, layout: Layout, account: Account, actuator: Child
) -> None:
    producer = Producer({"bootstrap.servers": broker.servers})
    for round_number in range(3):
        actuator.start()
        give_commands(layout, producer, range(10 * round_number, 10 * round_number + 10))
        # Of all but the last round some are still to be answered, by the actuator that comes after.
        wait_until(partial(is_answered, account, 10 * round_number + (10 if round_number == 2 else 1)))
        actuator.kill()
    assert len(account.commands) == 30
    assert command_differences(account) == []
