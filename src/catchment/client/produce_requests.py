"""One Produce request: what it carries, and what its answer says of each batch. No I/O happens here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest
from kio.schema.types import TopicName, TransactionalId
from kio.static.primitive import Records, i16, i32, i32Timedelta

from catchment.client.produce_queue import Outgoing
from catchment.client.topic_metadata import Place
from catchment.protocol.adapters.produce import TopicProduceData

_ALL_REPLICAS: Final = i16(-1)
_BROKER_TIMEOUT: Final = i32Timedelta.parse(timedelta(seconds=30))


class CarriedBatches(NamedTuple):
    """What one request carries, a batch a partition, and the ids of their topics: None from brokers before Kafka 2.8."""

    batches: dict[Place, Outgoing]
    topic_ids: dict[str, UUID | None]
    sent_at_s: float

    def message(self, transactional_id: TransactionalId | None) -> ProduceRequest:
        partitions: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), batch in self.batches.items():
            partitions.setdefault(topic, []).append(
                PartitionProduceData(index=i32(partition), records=Records(batch.data))
            )
        topics = tuple(
            TopicProduceData(name=TopicName(topic), topic_id=self.topic_ids[topic], partition_data=tuple(data))
            for topic, data in partitions.items()
        )
        return ProduceRequest(
            transactional_id=transactional_id, acks=_ALL_REPLICAS, timeout=_BROKER_TIMEOUT, topic_data=topics
        )

    def answered(self, answer: Any) -> Iterator[tuple[Place, Outgoing, Any]]:
        """Each batch with its partition's part of the answer; None where the answer leaves it out."""
        # Topics are answered by name, or by their ids alone since version 13.
        names = {topic_id: topic for topic, topic_id in self.topic_ids.items()}
        parts = {
            (topic.name or names.get(topic.topic_id), one.index): one
            for topic in answer.responses
            for one in topic.partition_responses
        }
        for place, batch in self.batches.items():
            yield place, batch, parts.get(place)
