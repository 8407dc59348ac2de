"""What tests of alerts share: a rule with names of its own, candidates, and what is found in the topics afterwards."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from typing import Any

from tests.client.logs import Logs
from tests.waiting import wait_until

from catchment.pipelines.alerts.decisions import Candidate
from catchment.pipelines.alerts.rule import AlertRule
from catchment.spark.options.connection import Connection

_numbers = itertools.count(1)
_TIMEOUT_S = 450.0


def new_rule(logs: Logs, *, topics: int = 1, pipeline: str | None = None, **fields: Any) -> AlertRule:
    """A rule of a pipeline of its own, with its topics made."""
    pipeline = pipeline or f"alerting{next(_numbers)}"
    named = {"name": "burst", "when": "count > 40", "key": ("district",), "event_time": "at", **fields}
    rule = AlertRule(pipeline=pipeline, topics=tuple(logs.topic() for _ in range(topics)), **named)
    logs.create(rule.log_topic, 1, {})
    return rule


def connection(logs: Logs) -> Connection:
    return Connection(logs.bootstrap_servers)


def alert_id(pipeline: str, name: str, key: str, event_time_us: int) -> str:
    """What an id is made of, said a second time: channels know an alert by it, so it may never change."""
    text = "\n".join([pipeline, name, key, str(event_time_us)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def candidate(rule: AlertRule, district: str, event_time_us: int) -> Candidate:
    key = json.dumps({"district": district}, separators=(",", ":"))
    found = alert_id(rule.pipeline, rule.name, key, event_time_us)
    body = {"id": found, "alert": rule.name, "message": f"{district} at {event_time_us}"}
    return Candidate(key, event_time_us, found, district, json.dumps(body), [district for _ in rule.topics])


def ids(logs: Logs, topic: str) -> list[str]:
    """The ids of the committed alerts in a topic, in order."""
    return [json.loads(value or b"")["id"] for value in logs.settled_values(topic)]


def eventually(
    holds: Callable[[], bool], what: Callable[[], object] = lambda: "", timeout_s: float = _TIMEOUT_S
) -> None:
    """Wait until it holds."""
    wait_until(holds, what, timeout_s)
