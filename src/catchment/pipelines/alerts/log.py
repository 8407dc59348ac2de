"""The alerts topic of a pipeline: the alerts that have fired, written together with every topic of the rule in one transaction.

The driver that opens the log for an alert takes over its transactional id. That fences an earlier driver and aborts its transaction, so
what is read back afterwards is all that will ever have fired. The earlier driver, should it still be running, fails with
`AlertsTakenOver`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import pyarrow
from kio.schema.errors import ErrorCode
from pyarrow import compute

from catchment.client.cluster import Cluster
from catchment.client.columns.schema import HEADER_TYPE
from catchment.client.errors import BrokerError, ClientError
from catchment.client.offsets import EARLIEST, LATEST
from catchment.client.producer import Producer
from catchment.client.reader import Reader, Span
from catchment.client.transactions import Transactions
from catchment.pipelines.alerts.decisions import Candidate, Memory
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.declaration.addresses import LARGEST_RECORD_BYTES
from catchment.spark.options.connection import Connection

_TRANSACTION_TIMEOUT_MS: Final = 60_000
_DELIVERY_TIMEOUT_S: Final = 30.0
"""Less than the transaction time-out: a write to a broker that is away fails before the transaction ends."""
_READ_TIMEOUT_S: Final = 90.0
"""More than the transaction time-out: transactions of other alerts may have to end before the log can be read to its end."""
_FENCED: Final = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch})
_ID: Final = "id"
_TIME: Final = "event_time_us"
_KEY: Final = "key"


class AlertsTakenOver(ClientError):
    """Another driver writes this alert now. A restart would only take it back from that one."""

    def __init__(self, rule: AlertRule) -> None:
        super().__init__(
            f"another driver of pipeline {rule.pipeline} has taken alert {rule.name} over, so this one fires it no more",
            "Run a pipeline once: stop this driver, or the other one.",
        )
        self.args = (rule,)


class AlertLog:
    """The log as one alert uses it. For one thread at a time."""

    def __init__(self, connection: Connection, rule: AlertRule) -> None:
        self._rule = rule
        self._cluster = connection.new_cluster()
        try:
            self._producer = Producer(
                self._cluster,
                transactional_id=rule.transactional_id,
                transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
                max_record_bytes=LARGEST_RECORD_BYTES,
                delivery_timeout_s=_DELIVERY_TIMEOUT_S,
            )
        except BaseException:
            self._cluster.close()
            raise

    def close(self) -> None:
        """An open transaction is left to the next driver that opens the log, or to its time-out."""
        self._producer.close()
        self._cluster.close()

    def read_back(self) -> Memory:
        """All alerts of this rule that ever fired and are still in the log."""
        memory = Memory(self._rule.cooldown_ms * 1000)
        for key, event_time_us in fired_before(self._cluster, self._rule):
            memory.remember(key, event_time_us)
        return memory

    def append(self, alerts: Sequence[Candidate]) -> None:
        """Write alerts to the log and to every topic of the rule: all of them to all, or none to any."""
        if not alerts:
            return
        self._producer.begin()
        handle = self._producer.handle()
        try:
            for topic, rows in self._records(alerts).items():
                self._producer.write(topic, rows)
            self._producer.commit()
        except BrokerError as error:
            if error.code in _FENCED:
                transactions = Transactions(self._cluster, self._rule.transactional_id, _TRANSACTION_TIMEOUT_MS)
                try:
                    # The same error comes after a transaction's time-out, but then the owner may go on.
                    transactions.init_producer_id(handle)
                except BrokerError as refused:
                    if refused.code in _FENCED:
                        raise AlertsTakenOver(self._rule) from error
                    raise
            raise

    def _records(self, alerts: Sequence[Candidate]) -> dict[str, pyarrow.Table]:
        headers = [_headers(one) for one in alerts]
        values = [one.value for one in alerts]
        log_keys = [f"{self._rule.name}:{one.record_key or ''}" for one in alerts]
        records = {
            topic: _table([one.topic_keys[position] for one in alerts], values, headers)
            for position, topic in enumerate(self._rule.topics)
        }
        return {**records, self._rule.log_topic: _table(log_keys, values, headers)}


def fired_before(cluster: Cluster, rule: AlertRule) -> list[tuple[str, int]]:
    """Key and event time of every alert of a rule in the log, other rules' left out."""
    places = [(rule.log_topic, number) for number in cluster.partitions(rule.log_topic, create=True)]
    starts = cluster.list_offsets(places, EARLIEST)
    # Up to the very end: what is ours may lie behind another alert's transaction that is still open.
    ends = cluster.list_offsets(places, LATEST)
    spans = [Span(*place, starts[place].offset, ends[place].offset) for place in places]
    found: list[tuple[str, int]] = []
    with Reader(cluster, spans, columns=["key", "headers"], timeout_s=_READ_TIMEOUT_S) as reader:
        for read in reader:
            ours = compute.starts_with(read.batch.column("key"), f"{rule.name}:")
            for headers in read.batch.column("headers").filter(ours).to_pylist():
                texts = {one["key"]: one["value"].decode() for one in headers or ()}
                # A record without them was not written by us.
                if _KEY in texts and _TIME in texts:
                    found.append((texts[_KEY], int(texts[_TIME])))
    return found


def alert_of(record_key: bytes | None) -> str:
    """The alert's name, of the key of a record in the log."""
    return (record_key or b"").partition(b":")[0].decode(errors="replace")


def ids_of(batch: pyarrow.RecordBatch, alert: str) -> list[str]:
    """The ids of an alert's records in a batch that has the columns key and headers."""
    ours = compute.starts_with(batch.column("key"), f"{alert}:")
    headers = batch.column("headers").filter(ours).to_pylist()
    return [
        (one["value"] or b"").decode(errors="replace") for found in headers for one in found or () if one["key"] == _ID
    ]


def _headers(alert: Candidate) -> list[dict[str, str | bytes]]:
    texts = {_ID: alert.id, _TIME: str(alert.event_time_us), _KEY: alert.key}
    return [{"key": name, "value": text.encode()} for name, text in texts.items()]


def _table(keys: Sequence[str | None], values: list[str], headers: list[list[dict[str, str | bytes]]]) -> pyarrow.Table:
    return pyarrow.table(
        {
            "key": pyarrow.array(keys, pyarrow.string()),
            "value": pyarrow.array(values, pyarrow.string()),
            "headers": pyarrow.array(headers, pyarrow.list_(HEADER_TYPE)),
        }
    )


REMEMBERED_IDS: Final = 10_000

Outcome = TypeVar("Outcome")


class Remembered(Generic[Outcome]):
    """Outcomes by id, bounded: the oldest is forgotten first."""

    def __init__(self, limit: int = REMEMBERED_IDS) -> None:
        self.limit = limit
        self._outcomes: OrderedDict[str, Outcome] = OrderedDict()

    def __contains__(self, identity: str) -> bool:
        return identity in self._outcomes

    def __getitem__(self, identity: str) -> Outcome:
        return self._outcomes[identity]

    def __setitem__(self, identity: str, outcome: Outcome) -> None:
        self._outcomes[identity] = outcome
        if len(self._outcomes) > self.limit:
            self._outcomes.popitem(last=False)
