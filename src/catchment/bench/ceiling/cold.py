"""The responses of the ceiling that a client requests once, encoded by kio: one version of each API."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Mapping

from kio.schema.api_versions.v3.response import ApiVersion, ApiVersionsResponse
from kio.schema.create_topics.v4.request import CreateTopicsRequest
from kio.schema.create_topics.v4.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.list_offsets.v7.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta, i64
from kio.static.protocol import Entity

from catchment.bench.ceiling.hot import FETCH_VERSION, PRODUCE_VERSION
from catchment.bench.ceiling.memory import RememberedTopics, topic_id

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 1, 2, 3, 18, 19, 22
API_VERSIONS_VERSION = 3
VERSIONS: Mapping[int, int] = {
    PRODUCE: PRODUCE_VERSION,
    FETCH: FETCH_VERSION,
    LIST_OFFSETS: 7,
    METADATA: 12,
    API_VERSIONS: API_VERSIONS_VERSION,
    CREATE_TOPICS: 4,
    INIT_PRODUCER_ID: 4,
}
# The only version of these without tagged fields, in the header and in the body: librdkafka requests no newer one.
WITHOUT_TAGS = frozenset({CREATE_TOPICS})
_NONE = ErrorCode.none
_AT_ONCE = i32Timedelta.parse(datetime.timedelta())
_NODE = BrokerId(0)
_EARLIEST = -2


class ColdAnswers:
    """Responses by API key, for one server at one address."""

    def __init__(self, topics: RememberedTopics, host: str, port: int) -> None:
        self._topics = topics
        self._broker = MetadataResponseBroker(node_id=_NODE, host=host, port=i32(port))
        self._next_producer_id = 0
        self.by_key: Mapping[int, Callable[[memoryview, int], bytes]] = {
            LIST_OFFSETS: self._list_offsets,
            METADATA: self._metadata,
            CREATE_TOPICS: self._create_topics,
            INIT_PRODUCER_ID: self._init_producer_id,
        }

    def _metadata(self, frame: memoryview, position: int) -> bytes:
        request, _ = entity_reader(MetadataRequest)(frame, position)
        wanted = [topic.name for topic in request.topics or () if topic.name is not None]
        names = self._topics.by_name if request.topics is None else wanted
        response = MetadataResponse(
            throttle_time=_AT_ONCE,
            brokers=(self._broker,),
            cluster_id="ceiling",
            controller_id=_NODE,
            topics=tuple(self._topic(name) for name in names),
        )
        return _written(response)

    def _topic(self, name: str) -> MetadataResponseTopic:
        partitions = self._topics.create(name, 1)
        return MetadataResponseTopic(
            error_code=_NONE,
            name=TopicName(name),
            topic_id=topic_id(name),
            partitions=tuple(
                MetadataResponsePartition(
                    error_code=_NONE,
                    partition_index=i32(index),
                    leader_id=_NODE,
                    leader_epoch=i32(0),
                    replica_nodes=(_NODE,),
                    isr_nodes=(_NODE,),
                )
                for index in range(len(partitions))
            ),
        )

    def _create_topics(self, frame: memoryview, position: int) -> bytes:
        request, _ = entity_reader(CreateTopicsRequest)(frame, position)
        results = []
        for topic in request.topics:
            self._topics.create(topic.name, max(1, topic.num_partitions))
            results.append(CreatableTopicResult(name=topic.name, error_code=_NONE, error_message=None))
        response = CreateTopicsResponse(throttle_time=_AT_ONCE, topics=tuple(results))
        return _written(response)

    def _list_offsets(self, frame: memoryview, position: int) -> bytes:
        request, _ = entity_reader(ListOffsetsRequest)(frame, position)
        response = ListOffsetsResponse(
            throttle_time=_AT_ONCE,
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=wanted.partition_index,
                            error_code=_NONE,
                            offset=i64(
                                0
                                if wanted.timestamp == _EARLIEST
                                else self._topics.create(topic.name, 1)[wanted.partition_index].end_offset
                            ),
                            leader_epoch=i32(0),
                        )
                        for wanted in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )
        return _written(response)

    def _init_producer_id(self, frame: memoryview, position: int) -> bytes:
        self._next_producer_id += 1
        response = InitProducerIdResponse(
            throttle_time=_AT_ONCE,
            error_code=_NONE,
            producer_id=ProducerId(self._next_producer_id),
            producer_epoch=i16(0),
        )
        return _written(response)


def api_versions(version: int) -> bytes:
    """The table of versions. A client with an unsupported version gets error 35 in version 0 and retries.

    We claim every version from 0, because librdkafka infers a broker's features from the oldest ones, and then uses
    the newest that both support; only that one is served.
    """
    table = tuple(
        ApiVersion(api_key=i16(key), min_version=i16(0), max_version=i16(newest))
        for key, newest in sorted(VERSIONS.items())
    )
    if version != API_VERSIONS_VERSION:
        rows = b"".join(
            key.to_bytes(2, "big") + bytes(2) + newest.to_bytes(2, "big") for key, newest in sorted(VERSIONS.items())
        )
        return ErrorCode.unsupported_version.value.to_bytes(2, "big") + len(table).to_bytes(4, "big") + rows
    response = ApiVersionsResponse(error_code=_NONE, api_keys=table, throttle_time=_AT_ONCE)
    return _written(response)


def _written(response: Entity) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(response))(buffer, response)
    return buffer.getvalue()
