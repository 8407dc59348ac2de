"""Transactional producers with any client: begin, send, commit or abort, optionally with the offsets of a group."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from tests.compat.clients.client import TIMEOUT_S
from tests.compat.clients.group_consumers import GroupConsumer
from tests.compat.clients.kafka_python import KafkaError, KafkaProducer, OffsetAndMetadata, TopicPartition

_TIMEOUT_MS = 60_000
Result = TypeVar("Result")


class Refused(Exception):
    """The client reports that the transaction cannot continue."""


class TransactionalProducer(abc.ABC):
    """Ready for its first transaction once it is created; earlier producers with the same transactional id are then fenced."""

    @abc.abstractmethod
    def begin(self) -> None: ...

    @abc.abstractmethod
    def send(self, topic: str, values: Sequence[bytes]) -> None:
        """Return once all are in partition 0, in the transaction."""

    @abc.abstractmethod
    def send_offsets(self, topic: str, offsets: Mapping[int, int], member: GroupConsumer) -> None: ...

    @abc.abstractmethod
    def commit(self) -> None: ...

    @abc.abstractmethod
    def abort(self) -> None: ...

    @abc.abstractmethod
    def close(self) -> None: ...


class ConfluentTransactions(TransactionalProducer):
    def __init__(self, bootstrap_servers: str, transactional_id: str, timeout_ms: int = _TIMEOUT_MS) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        for value in values:
            self._producer.produce(topic, value, partition=0)
        if self._producer.flush(TIMEOUT_S):
            raise Refused("not all records were delivered")

    def send_offsets(self, topic: str, offsets: Mapping[int, int], member: GroupConsumer) -> None:
        positions = [ConfluentTopicPartition(topic, number, offset) for number, offset in offsets.items()]
        self._producer.send_offsets_to_transaction(positions, member.group_metadata(), TIMEOUT_S)

    def commit(self) -> None:
        try:
            self._producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            raise Refused(str(error)) from error

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._producer.purge()


class KafkaPythonTransactions(TransactionalProducer):
    def __init__(self, bootstrap_servers: str, transactional_id: str, timeout_ms: int = _TIMEOUT_MS) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        sent = [self._producer.send(topic, value, partition=0) for value in values]
        self._producer.flush(TIMEOUT_S)
        for each in sent:
            each.get(TIMEOUT_S)

    def send_offsets(self, topic: str, offsets: Mapping[int, int], member: GroupConsumer) -> None:
        positions = {TopicPartition(topic, number): OffsetAndMetadata(at, "", -1) for number, at in offsets.items()}
        self._producer.send_offsets_to_transaction(positions, member.group_metadata())

    def commit(self) -> None:
        try:
            self._producer.commit_transaction()
        except KafkaError as error:
            raise Refused(str(error)) from error

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class AioKafkaTransactions(TransactionalProducer):
    """Its event loop runs only during calls, as if the producer were frozen in between."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, timeout_ms: int = _TIMEOUT_MS) -> None:
        self._runner = asyncio.Runner()

        async def start() -> Any:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap_servers,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await producer.start()
            return producer

        self._producer: Any = self._runner.run(start())

    def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(asyncio.wait_for(coroutine, TIMEOUT_S))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        async def send() -> None:
            await asyncio.gather(*[await self._producer.send(topic, value, partition=0) for value in values])

        self._run(send())

    def send_offsets(self, topic: str, offsets: Mapping[int, int], member: GroupConsumer) -> None:
        positions = {AioTopicPartition(topic, number): offset for number, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(positions, member.group_metadata()))

    def commit(self) -> None:
        try:
            self._run(self._producer.commit_transaction())
        except AioKafkaError as error:
            raise Refused(repr(error)) from error

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        with suppress(AioKafkaError):
            self._run(self._producer.stop())
        self._runner.close()


TRANSACTIONAL_PRODUCERS: dict[str, type[TransactionalProducer]] = {
    "confluent-kafka": ConfluentTransactions,
    "kafka-python": KafkaPythonTransactions,
    "aiokafka": AioKafkaTransactions,
}
