"""Members of a consumer group with any client: subscribe, poll, commit, leave."""

from __future__ import annotations

import abc
import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from tests.compat.clients.client import TIMEOUT_S
from tests.compat.clients.kafka_python import KafkaConsumer, TopicPartition

_SESSION_MS = 10_000
_POLL_S = 0.1


class GroupConsumer(abc.ABC):
    """Starts at the beginning of the topic if the group has committed nothing; commits only on `commit`."""

    @abc.abstractmethod
    def poll(self) -> list[bytes]:
        """The values since the last call; waits a moment for the first."""

    @abc.abstractmethod
    def assignment(self) -> set[int]:
        """The partitions that it owns."""

    @abc.abstractmethod
    def commit(self) -> None: ...

    @abc.abstractmethod
    def seek(self, partition: int, offset: int) -> None: ...

    @abc.abstractmethod
    def group_metadata(self) -> Any:
        """The group metadata that a transactional producer of the same client needs to commit for this member."""

    @abc.abstractmethod
    def close(self) -> None: ...


class ConfluentConsumer(GroupConsumer):
    protocol: Mapping[str, object] = {"session.timeout.ms": _SESSION_MS, "heartbeat.interval.ms": 300}

    def __init__(self, bootstrap_servers: str, group: str, topic: str, **options: Any) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **self.protocol,
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[bytes]:
        messages = self._consumer.consume(100, _POLL_S)
        return [message.value() or b"" for message in messages if message.error() is None]

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(ConfluentTopicPartition(self._topic, partition, offset))

    def group_metadata(self) -> Any:
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        self._consumer.close()


class NewConfluentConsumer(ConfluentConsumer):
    """The same client with the new protocol (KIP-848), where the broker sets the intervals and timeouts."""

    protocol: Mapping[str, object] = {"group.protocol": "consumer"}


class KafkaPythonConsumer(GroupConsumer):
    def __init__(self, bootstrap_servers: str, group: str, topic: str, **options: Any) -> None:
        self._topic = topic
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=300,
            **options,
        )
        # A leader that did not know the topic when it assigned joins again once it does, and forgets this join if it takes
        # longer than one poll: it is left without partitions and sends no heartbeats. So it must know the topic before.
        deadline_s = time.monotonic() + TIMEOUT_S
        while not self._consumer.partitions_for_topic(topic):
            assert time.monotonic() < deadline_s, f"{topic} is not in the metadata"

    def poll(self) -> list[bytes]:
        fetched = self._consumer.poll(int(_POLL_S * 1000))
        return [record.value for records in fetched.values() for record in records]

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._topic, partition), offset)

    def group_metadata(self) -> Any:
        return self._consumer.group_metadata()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class AioKafkaConsumer(GroupConsumer):
    """Its rebalances run in the background of an event loop that runs only during a poll, so all members share one loop."""

    _runner: asyncio.Runner | None = None
    _runs_one_at_a_time = threading.Lock()

    def __init__(self, bootstrap_servers: str, group: str, topic: str, **options: Any) -> None:
        if AioKafkaConsumer._runner is None:
            AioKafkaConsumer._runner = asyncio.Runner()
        self._topic = topic
        self._group = group
        self._consumer = self._run(self._start(bootstrap_servers, group, topic, options))

    async def _start(self, bootstrap_servers: str, group: str, topic: str, options: dict[str, Any]) -> Any:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=300,
            **options,
        )
        # The start waits for an assignment, which may need a member that is not polled in the meantime.
        self._starting = asyncio.ensure_future(consumer.start())
        return consumer

    def _run(self, coroutine: Any) -> Any:
        assert AioKafkaConsumer._runner is not None
        with self._runs_one_at_a_time:
            return AioKafkaConsumer._runner.run(coroutine)

    def poll(self) -> list[bytes]:
        async def poll() -> list[bytes]:
            await asyncio.wait([self._starting], timeout=_POLL_S)
            if not self._starting.done():
                return []
            fetched = await self._consumer.getmany(timeout_ms=int(_POLL_S * 1000))
            return [record.value for records in fetched.values() for record in records]

        found: list[bytes] = self._run(poll())
        return found

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(AioTopicPartition(self._topic, partition), offset)

    def group_metadata(self) -> Any:
        return self._group

    def close(self) -> None:
        async def stop() -> None:
            await self._starting
            await self._consumer.stop()

        self._run(stop())


def poll_together(members: Sequence[GroupConsumer]) -> list[bytes]:
    """What the members read if all poll at once, as they would in processes of their own.

    If they took turns, a member of kafka-python would drop the outcome of a join that ended in another's turn, and join
    again: two of them could make each other do so for minutes.
    """
    with ThreadPoolExecutor(len(members)) as threads:
        return [value for values in threads.map(lambda one: one.poll(), members) for value in values]


GROUP_CONSUMERS: dict[str, type[GroupConsumer]] = {
    "confluent-kafka": ConfluentConsumer,
    "confluent-kafka-new": NewConfluentConsumer,
    "kafka-python": KafkaPythonConsumer,
    "aiokafka": AioKafkaConsumer,
}
