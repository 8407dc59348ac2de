"""Webhooks and mail: delivered in order and at least once, retried within bounds, given up with the reason, never delaying a query."""

from __future__ import annotations

import email
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from email.policy import default
from typing import cast

import pyarrow
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.client.logs import CatchmentLogs, Logs
from tests.pipelines.alerts.alert_world import candidate, connection, eventually, new_rule
from tests.pipelines.alerts.servers import MailServer, WebhookServer, serving

from catchment.client.arrow_api import write_arrow
from catchment.client.columns.schema import HEADER_TYPE
from catchment.client.errors import SettingsError
from catchment.pipelines.alerts.channels import WebhookChannel
from catchment.pipelines.alerts.delivery import DeliveryLimits
from catchment.pipelines.alerts.notifier import Notifier
from catchment.pipelines.alerts.rule import AlertRule, undelivered_topic
from catchment.pipelines.alerts.writer import AlertWriter
from catchment.pipelines.declaration.addresses import LARGEST_RECORD_BYTES
from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.execution.topics import wanted_topics
from catchment.pipelines.graph import Graph
from catchment.testing.embedded import Broker

QUICK = DeliveryLimits(attempts=3, first_pause_s=0.001, longest_pause_s=0.01)


@pytest.fixture
def hook() -> Iterator[WebhookServer]:
    server = WebhookServer()
    with serving(server):
        yield server


@pytest.fixture
def mails() -> Iterator[MailServer]:
    server = MailServer()
    with serving(server):
        yield server


def fire(logs: Logs, rule: AlertRule, *found: tuple[str, int]) -> None:
    with closing(AlertWriter(rule, connection(logs))) as sink:
        sink.fire([candidate(rule, district, time_us) for district, time_us in found])


def notifier(logs: Logs, *rules: AlertRule, smtp: str | None = None, limits: DeliveryLimits = QUICK) -> Notifier:
    return Notifier(rules, connection(logs), smtp=smtp, limits=limits)


def undelivered(logs: Logs, rule: AlertRule) -> list[dict[str, str]]:
    """The headers of what was given up."""
    found = []
    for message in logs.messages(undelivered_topic(rule.pipeline)):
        headers = cast("list[tuple[str, bytes]]", message.headers())
        found.append({name: value.decode() for name, value in headers})
    return found


def test_a_webhook_gets_each_alert_with_its_id(logs: Logs, hook: WebhookServer) -> None:
    rule = new_rule(logs, webhooks=(hook.url,))
    with notifier(logs, rule) as running:
        fire(logs, rule, ("Harbour", 1), ("Hill", 2))
        eventually(lambda: running.statuses[0].delivered == 2, lambda: running.statuses)
    assert hook.messages() == ["Harbour at 1", "Hill at 2"]
    assert [one.headers["Idempotency-Key"] for one in hook.received] == [one.body["id"] for one in hook.received]
    assert hook.received[0].headers["Content-Type"] == "application/json"


def test_a_lane_goes_on_where_it_stood_and_a_new_one_begins_with_new_alerts(
    catchment_logs: CatchmentLogs, hook: WebhookServer
) -> None:
    rule = new_rule(catchment_logs, webhooks=(hook.url,))
    fire(catchment_logs, rule, ("Harbour", 1))
    with notifier(catchment_logs, rule):
        pass
    # While no notifier runs, alerts wait in the log.
    fire(catchment_logs, rule, ("Harbour", 2), ("Harbour", 3))
    with notifier(catchment_logs, rule) as running:
        eventually(lambda: running.statuses[0].delivered == 2, lambda: running.statuses)
    with notifier(catchment_logs, rule) as running:
        fire(catchment_logs, rule, ("Harbour", 4))
        eventually(lambda: running.statuses[0].delivered == 1, lambda: running.statuses)
    assert hook.messages() == ["Harbour at 2", "Harbour at 3", "Harbour at 4"]


def test_what_passes_is_tried_again_and_in_order(catchment_logs: CatchmentLogs, hook: WebhookServer) -> None:
    hook.answers += [503, 0, 200, (429, {"Retry-After": "600"}), 200]
    rule = new_rule(catchment_logs, webhooks=(hook.url,))
    with notifier(catchment_logs, rule) as running:
        fire(catchment_logs, rule, ("Harbour", 1), ("Harbour", 2), ("Harbour", 3))
        eventually(lambda: running.statuses[0].delivered == 3, lambda: running.statuses)
        assert running.statuses[0].trouble is None
        assert running.statuses[0].given_up == 0
    assert hook.messages() == [*["Harbour at 1"] * 3, *["Harbour at 2"] * 2, "Harbour at 3"]


def test_what_is_given_up_is_kept_with_its_reason_and_holds_up_nothing_else(
    catchment_logs: CatchmentLogs, hook: WebhookServer, mails: MailServer
) -> None:
    hook.broken |= {"Harbour": 503, "Hill": 404, "Old town": 302}
    rule = new_rule(catchment_logs, webhooks=(hook.url,), mails=("crew@example.org",))
    with notifier(catchment_logs, rule, smtp=mails.url) as running:
        fire(catchment_logs, rule, ("Harbour", 1), ("Hill", 2), ("Old town", 3), ("Park", 4))
        eventually(lambda: [one.delivered for one in running.statuses] == [1, 4], lambda: running.statuses)
        assert running.statuses[0].given_up == 3
    assert hook.messages() == [*["Harbour at 1"] * QUICK.attempts, "Hill at 2", "Old town at 3", "Park at 4"]
    given_up = undelivered(catchment_logs, rule)
    assert [one["attempts"] for one in given_up] == [str(QUICK.attempts), "1", "1"]
    for one, code in zip(given_up, (503, 404, 302), strict=True):
        assert one["error"].startswith(f"the webhook answered {code}")
    assert {one["listener"] for one in given_up} == {f"{rule.pipeline}.alerts.burst.webhook-0"}
    assert given_up[0]["id"] == candidate(rule, "Harbour", 1).id
    assert not any("secret" in text for one in given_up for text in one.values())


def test_a_lane_that_cannot_set_an_alert_aside_waits_for_the_topic_and_tells_nothing_twice(
    hook: WebhookServer,
) -> None:
    hook.broken |= {"Harbour": 404}
    source = {"topic": "reports", "schema": "district string, at timestamp, count int"}
    alert = {"from": "reports", "when": "count > 40", "key": "district", "to": {"webhook": hook.url}}
    declared = {"pipeline": "city", "sources": {"reports": source}, "alerts": {"burst": alert}}
    wanted = wanted_topics(Graph(Declared(declared).check()), 1)
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        logs = CatchmentLogs(broker)
        rule = new_rule(logs, pipeline="city", topics=0, webhooks=(hook.url,))
        with notifier(logs, rule) as running:
            fire(logs, rule, ("Harbour", 1), ("Hill", 2))
            eventually(
                lambda: "cannot be written to topic" in (running.statuses[0].trouble or ""), lambda: running.statuses
            )
            assert hook.messages() == ["Harbour at 1"]
            admin = AdminClient({"bootstrap.servers": logs.bootstrap_servers})
            admin.create_topics([wanted[undelivered_topic("city")]])[undelivered_topic("city")].result(30)
            eventually(lambda: running.statuses[0].delivered == 1, lambda: running.statuses)
        assert [one["attempts"] for one in undelivered(logs, rule)] == ["1"]
    assert hook.messages() == ["Harbour at 1", "Hill at 2"]


def test_an_alert_of_several_megabytes_is_written_delivered_and_given_up(
    catchment_logs: CatchmentLogs, hook: WebhookServer
) -> None:
    rule = AlertRule("large", "burst", "true", ("district",), "at", webhooks=(hook.url,))
    for topic in (rule.log_topic, undelivered_topic("large")):
        catchment_logs.create(topic, 1, {"max.message.bytes": str(LARGEST_RECORD_BYTES)})
    large = "x" * (3 << 20)
    hook.broken |= {f"{large} at 2": 404}
    with notifier(catchment_logs, rule) as running:
        fire(catchment_logs, rule, (large, 1), (large, 2))
        eventually(lambda: running.statuses[0].given_up == 1, lambda: running.statuses)
        assert running.statuses[0].delivered == 1
    assert [one["attempts"] for one in undelivered(catchment_logs, rule)] == ["1"]


def test_a_dead_webhook_stops_neither_the_alerts_nor_the_mail_nor_the_end(
    catchment_logs: CatchmentLogs, mails: MailServer
) -> None:
    gone = WebhookServer()
    gone.server_close()
    rule = new_rule(catchment_logs, webhooks=(gone.url,), mails=("crew@example.org",))
    endless = DeliveryLimits(attempts=1_000, first_pause_s=60.0, longest_pause_s=60.0)
    with notifier(catchment_logs, rule, smtp=mails.url, limits=endless) as running:
        fire(catchment_logs, rule, ("Harbour", 1))
        eventually(lambda: running.statuses[1].delivered == 1, lambda: running.statuses)
        eventually(lambda: "cannot be reached" in (running.statuses[0].trouble or ""), lambda: running.statuses)
    assert (running.statuses[0].delivered, running.statuses[0].given_up) == (0, 0)


def test_mail_says_the_message_in_its_subject_and_the_alert_in_its_text(
    catchment_logs: CatchmentLogs, mails: MailServer
) -> None:
    rule = new_rule(catchment_logs, mails=("crew@example.org",))
    with notifier(catchment_logs, rule, smtp=mails.url) as running:
        fire(catchment_logs, rule, ("Hafen Süd\nBcc: all", 1))
        eventually(lambda: running.statuses[0].delivered == 1, lambda: running.statuses)
    letter = email.message_from_string(mails.letters[0], policy=default)
    assert letter["Subject"] == "Hafen Süd Bcc: all at 1"
    assert (letter["From"], letter["To"], letter["Bcc"]) == ("alerts@example.org", "crew@example.org", None)
    expected = candidate(rule, "Hafen Süd\nBcc: all", 1)
    assert expected.id in letter["Message-ID"]
    assert json.loads(letter.get_content().replace("\r", "").partition("\n\n")[2]) == json.loads(expected.value)


def test_mail_that_is_refused_for_now_is_sent_again_and_for_good_is_given_up(
    catchment_logs: CatchmentLogs, mails: MailServer
) -> None:
    mails.replies += ["450 busy", "250 fine", "550 unknown user"]
    rule = new_rule(catchment_logs, mails=("crew@example.org",))
    with notifier(catchment_logs, rule, smtp=mails.url) as running:
        fire(catchment_logs, rule, ("Harbour", 1), ("Harbour", 2))
        eventually(lambda: running.statuses[0].given_up == 1, lambda: running.statuses)
    assert len(mails.letters) == 1
    (given_up,) = undelivered(catchment_logs, rule)
    assert given_up["error"] == "the SMTP server answered 550: unknown user"


def test_a_password_is_not_sent_in_the_clear(catchment_logs: CatchmentLogs, mails: MailServer) -> None:
    rule = new_rule(catchment_logs, mails=("crew@example.org",))
    with notifier(catchment_logs, rule, smtp=mails.url.replace("//", "//user:password@")) as running:
        fire(catchment_logs, rule, ("Harbour", 1))
        eventually(lambda: running.statuses[0].given_up == 1, lambda: running.statuses)
    assert "offers no encryption" in undelivered(catchment_logs, rule)[0]["error"]


def test_each_rule_tells_its_own_alerts_alone(catchment_logs: CatchmentLogs, hook: WebhookServer) -> None:
    burst = new_rule(catchment_logs, webhooks=(hook.url,))
    quiet = replace(burst, name="quiet", webhooks=())
    with notifier(catchment_logs, burst, quiet) as running:
        fire(catchment_logs, quiet, ("Hill", 1))
        fire(catchment_logs, burst, ("Harbour", 2))
        eventually(lambda: running.statuses[0].delivered == 1, lambda: running.statuses)
    assert hook.messages() == ["Harbour at 2"]


def test_a_foreign_record_in_the_log_is_given_up_and_the_worker_goes_on(
    catchment_logs: CatchmentLogs, hook: WebhookServer
) -> None:
    rule = new_rule(catchment_logs, webhooks=(hook.url,))
    with notifier(catchment_logs, rule) as running:
        rows = pyarrow.table({"key": [b"burst:x", None, b"burst:y"], "value": [b"no JSON", b"{}", b"[]"]})
        write_arrow(rule.log_topic, rows, catchment_logs.bootstrap_servers)
        fire(catchment_logs, rule, ("Harbour", 2))
        eventually(lambda: running.statuses[0].delivered == 1, lambda: running.statuses)
        assert running.statuses[0].given_up == 2
    assert hook.messages() == ["Harbour at 2"]


def test_an_alert_that_is_in_the_log_again_and_again_is_delivered_once_after_a_restart_too(
    catchment_logs: CatchmentLogs, hook: WebhookServer
) -> None:
    """As real-time mode writes it, for each event that goes on satisfying the condition."""
    hook.broken |= {"Hill": 404}
    rule = new_rule(catchment_logs, webhooks=(hook.url,))
    with notifier(catchment_logs, rule) as running:
        write_as_in_real_time(catchment_logs, rule, ("Harbour", 1), ("Hill", 2), ("Harbour", 1), ("Hill", 2))
        eventually(lambda: running.statuses[0].repeated == 2, lambda: running.statuses)
        assert (running.statuses[0].delivered, running.statuses[0].given_up) == (1, 1)
    with notifier(catchment_logs, rule) as running:
        write_as_in_real_time(catchment_logs, rule, ("Harbour", 1), ("Hill", 2), ("Park", 3))
        eventually(lambda: running.statuses[0].delivered == 1, lambda: running.statuses)
        assert running.statuses[0].repeated == 2
    assert hook.messages() == ["Harbour at 1", "Hill at 2", "Park at 3"]


def write_as_in_real_time(logs: Logs, rule: AlertRule, *found: tuple[str, int]) -> None:
    alerts = [candidate(rule, *one) for one in found]
    rows = pyarrow.table(
        {
            "key": [f"{rule.name}:{one.record_key}".encode() for one in alerts],
            "value": [one.value.encode() for one in alerts],
            "headers": pyarrow.array(
                [[{"key": "id", "value": one.id.encode()}] for one in alerts], pyarrow.list_(HEADER_TYPE)
            ),
        }
    )
    write_arrow(rule.log_topic, rows, logs.bootstrap_servers)


def test_the_end_of_a_run_waits_until_all_is_delivered_but_not_for_a_receiver_that_is_away(
    catchment_logs: CatchmentLogs, hook: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.answers += [503]
    rule = new_rule(catchment_logs, webhooks=(hook.url,))
    slow = DeliveryLimits(attempts=3, first_pause_s=0.5, longest_pause_s=0.5)
    with notifier(catchment_logs, rule, limits=slow) as running:
        fire(catchment_logs, rule, *(("Harbour", time_us) for time_us in range(10)))
        eventually(running.has_finished, lambda: running.statuses)
    assert hook.messages() == ["Harbour at 0", *(f"Harbour at {time_us}" for time_us in range(10))]

    hook.broken |= {"Hill": 503}
    monkeypatch.setattr("catchment.pipelines.alerts.notifier._FINISH_S", 0.5)
    endless = DeliveryLimits(attempts=1_000, first_pause_s=60.0, longest_pause_s=60.0)
    with notifier(catchment_logs, rule, limits=endless) as running:
        fire(catchment_logs, rule, ("Hill", 1))
        assert not running.has_finished()
        eventually(running.has_finished, lambda: running.statuses)
        assert running.statuses[0].delivered == 0


def test_a_broker_that_is_away_for_a_while_only_delays(hook: WebhookServer) -> None:
    with Broker() as broker:
        logs = CatchmentLogs(broker)
        rule = new_rule(logs, webhooks=(hook.url,))
        with notifier(logs, rule) as running:
            fire(logs, rule, ("Harbour", 1))
            eventually(lambda: running.statuses[0].delivered == 1, lambda: running.statuses)
            broker.kill()
            broker.start()
            fire(logs, rule, ("Harbour", 2))
            eventually(lambda: running.statuses[0].delivered >= 2, lambda: running.statuses)
    assert hook.messages()[0] == "Harbour at 1"
    assert hook.messages()[-1] == "Harbour at 2"


def test_alerts_that_retention_removed_are_counted_as_lost(catchment_logs: CatchmentLogs, hook: WebhookServer) -> None:
    rule = new_rule(catchment_logs, webhooks=(hook.url,))
    with notifier(catchment_logs, rule):
        pass
    fire(catchment_logs, rule, ("Harbour", 1), ("Harbour", 2))
    delete_records(catchment_logs, rule.log_topic, 3)
    with notifier(catchment_logs, rule) as running:
        fire(catchment_logs, rule, ("Harbour", 3))
        eventually(lambda: running.statuses[0].delivered == 1, lambda: running.statuses)
        assert running.statuses[0].lost == 3
    assert hook.messages() == ["Harbour at 3"]


def delete_records(logs: Logs, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": logs.bootstrap_servers})
    for done in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        done.result(30)


@pytest.mark.parametrize("url", ["ftp://example.org", "example.org/hook", "https://"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(SettingsError, match="no address"):
        WebhookChannel(url)


def test_mail_without_a_server_is_refused_at_once(catchment_logs: CatchmentLogs) -> None:
    rule = new_rule(catchment_logs, mails=("crew@example.org",))
    with pytest.raises(SettingsError, match="no SMTP server"):
        notifier(catchment_logs, rule)
    with pytest.raises(SettingsError, match="is no address for mail"):
        notifier(catchment_logs, replace(rule, mails=("crew",)), smtp="smtp://localhost")
