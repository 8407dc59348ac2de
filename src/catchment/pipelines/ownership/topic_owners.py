"""The owners of topics, in a compacted topic of ours: a topic of Kafka has no field for one.

A claim is a transaction. Every claimant of a cluster uses one transactional id, so the brokers let only the newest of them commit:
what it has read before is then still true, and of two that claim the same topic at once one reads what the other has written. A
claimant that loses its turn tries again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, NamedTuple, Self

import pyarrow
from kio.schema.errors import ErrorCode
from pydantic import ValidationError

from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, ClientError
from catchment.client.offsets import EARLIEST, LATEST
from catchment.client.producer import Producer
from catchment.client.reader import Reader, Span
from catchment.pipelines.execution.topics import TopicAdmin
from catchment.pipelines.ownership.owner import Owner
from catchment.spark.options.connection import Connection

OWNERS_TOPIC: Final = "_catchment_pipeline_owners"
_TRANSACTIONAL_ID: Final = OWNERS_TOPIC
_TRANSACTION_TIMEOUT_MS: Final = 30_000
_READ_TIMEOUT_S: Final = 40.0
"""More than a transaction lives: one that was left open may have to time out before the topic can be read to its end."""
_ATTEMPTS: Final = 30
_LONGEST_PAUSE_S: Final = 0.5
_LOST_TURN: Final = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_txn_state,
        ErrorCode.concurrent_transactions,
    }
)
"""Answers to a claimant whose transaction the next one has ended, before, during or after its write."""

Owners = dict[str, tuple[Owner, ...]]
"""By topic."""


class TopicClaim(NamedTuple):
    """A topic that a query is to write, and what looks at its owners first and raises if it may not."""

    topic: str
    owner: Owner
    check: Callable[[tuple[Owner, ...]], None]


@dataclass(frozen=True)
class BrokerFacts:
    """Which brokers these are, and which topics they have."""

    cluster_id: str | None = None
    topics: Mapping[str, str] = field(default_factory=dict)
    """The id of each topic; empty where the brokers give none."""


class TopicOwners:
    """The owners of the topics of one cluster. For one thread at a time."""

    def __init__(self, servers: str, kafka: Mapping[str, str], timeout_s: float | None = None) -> None:
        """`kafka` are the settings of the connection."""
        options = {"kafka.bootstrap.servers": servers} | {f"kafka.{name}": one for name, one in kafka.items()}
        connection = Connection.read(options)
        self._servers, self._kafka = servers, kafka
        self._cluster: Cluster = (replace(connection, timeout_s=timeout_s) if timeout_s else connection).new_cluster()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._cluster.close()

    def facts(self) -> BrokerFacts:
        """What the brokers say of themselves."""
        answer = self._cluster.read_metadata(None, self._cluster.deadline())
        ids = {str(one.name): "" if one.topic_id is None else str(one.topic_id) for one in answer.topics}
        return BrokerFacts(answer.cluster_id, ids)

    def read(self) -> Owners:
        """All owners of topics; none where the topic is not there, which is left so."""
        if OWNERS_TOPIC not in self.facts().topics:
            return {}
        return self._read()

    def has_records(self, topic: str) -> bool:
        """Whether anything is in a topic."""
        places = [(topic, number) for number in self._cluster.partitions(topic)]
        starts, ends = (self._cluster.list_offsets(places, edge) for edge in (EARLIEST, LATEST))
        return any(ends[place].offset > starts[place].offset for place in places)

    def claim(self, claims: Sequence[TopicClaim]) -> None:
        """Record the owners of some topics, all or none; raises what a check raises."""
        if claims:
            self._write(lambda known: _claimed(claims, known))

    def forget(self, pipeline: str, topics: Sequence[str]) -> None:
        """Delete what a pipeline owns of these topics from the record."""
        if OWNERS_TOPIC not in self.facts().topics:
            return
        self._write(
            lambda known: {
                _key(topic, one): None for topic in topics for one in known.get(topic, ()) if one.pipeline == pipeline
            }
        )

    def _write(self, decide: Callable[[Owners], dict[str, str | None]]) -> None:
        if OWNERS_TOPIC not in self.facts().topics:
            TopicAdmin(self._servers, self._kafka).make_changelog(OWNERS_TOPIC)
        for attempt in range(_ATTEMPTS):
            try:
                if self._attempt(decide):
                    return
            except BrokerError as error:
                if error.code not in _LOST_TURN:
                    raise
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE_S, 0.02 * 2**attempt)))
        raise ClientError(
            f"owners cannot be recorded in topic {OWNERS_TOPIC}: others did so at each of {_ATTEMPTS} attempts",
            "Try again.",
        )

    def _attempt(self, decide: Callable[[Owners], dict[str, str | None]]) -> bool:
        producer = Producer(
            self._cluster, transactional_id=_TRANSACTIONAL_ID, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        )
        try:
            records = decide(self._read())
            if not records:
                return True
            producer.begin()
            rows = {"key": pyarrow.array(list(records), pyarrow.string())}
            rows["value"] = pyarrow.array(list(records.values()), pyarrow.string())
            producer.write(OWNERS_TOPIC, pyarrow.table(rows), partition=0)
            producer.commit()
            return True
        finally:
            producer.close()

    def _read(self) -> Owners:
        place = (OWNERS_TOPIC, 0)
        start = self._cluster.list_offsets([place], EARLIEST)[place].offset
        end = self._cluster.list_offsets([place], LATEST)[place].offset
        newest: dict[str, Owner] = {}
        span = Span(OWNERS_TOPIC, 0, start, end)
        with Reader(self._cluster, [span], columns=["key", "value"], timeout_s=_READ_TIMEOUT_S) as reader:
            for read in reader:
                keys, values = (read.batch.column(name).to_pylist() for name in ("key", "value"))
                for key, value in zip(keys, values, strict=True):
                    _apply(newest, key, value)
        owners: Owners = {}
        for key, one in newest.items():
            topic = key.partition("\n")[0]
            owners[topic] = (*owners.get(topic, ()), one)
        return owners


def _apply(newest: dict[str, Owner], key: bytes | str | None, value: bytes | str | None) -> None:
    text = key.decode() if isinstance(key, bytes) else key or ""
    if value is None:
        newest.pop(text, None)
        return
    try:
        newest[text] = Owner.model_validate_json(value)
    except ValidationError:
        # What others write there is no owner.
        newest.pop(text, None)


def _claimed(claims: Sequence[TopicClaim], known: Owners) -> dict[str, str | None]:
    for one in claims:
        one.check(known.get(one.topic, ()))
    return {_key(one.topic, one.owner): one.owner.model_dump_json() for one in claims}


def _key(topic: str, owner: Owner) -> str:
    return f"{topic}\n{owner.pipeline}\n{owner.query}"
