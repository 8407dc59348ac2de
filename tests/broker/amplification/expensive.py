"""Requests that are valid and small, and ask for work out of proportion to their bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from typing import Any, Final, NamedTuple

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.share_acknowledge.v2.request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kio.schema.types import BrokerId, GroupId, ProducerId, TopicName, TransactionalId
from kio.schema.write_share_group_state.v1.request import (
    PartitionData,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kio.serial import entity_writer
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64
from tests.broker.amplification.frames import World

from catchment.protocol.headers import encode_request_header

_LARGEST_INT32: Final = 2**31 - 1
_SECOND: Final = i32Timedelta.parse(timedelta(seconds=1))
_MINUTE: Final = i32Timedelta.parse(timedelta(seconds=60))


class Expensive(NamedTuple):
    name: str
    request: Callable[[World], tuple[Any, int]]
    """The request, and how many elements it has."""

    def frame(self, world: World) -> tuple[bytes, int]:
        message, elements = self.request(world)
        body = BytesIO()
        entity_writer(type(message))(body, message)
        frame = encode_request_header(message.__api_key__, message.__version__, 1, "expensive") + body.getvalue()
        return struct.pack(">i", len(frame)) + frame, elements


def _create(topic: CreatableTopic, elements: int) -> tuple[Any, int]:
    return CreateTopicsRequest(topics=(topic,), timeout=_SECOND, validate_only=False), elements


def _a_topic_of_too_many_partitions(world: World) -> tuple[Any, int]:
    return _create(
        CreatableTopic(
            name=TopicName("wide"),
            num_partitions=i32(_LARGEST_INT32),
            replication_factor=i16(1),
            assignments=(),
            configs=(),
        ),
        1,
    )


def _a_topic_with_a_huge_assignment(world: World) -> tuple[Any, int]:
    assignment = CreatableReplicaAssignment(partition_index=i32(0), broker_ids=(BrokerId(1),) * 50_000)
    return _create(
        CreatableTopic(
            name=TopicName("assigned"),
            num_partitions=i32(-1),
            replication_factor=i16(-1),
            assignments=(assignment,),
            configs=(),
        ),
        50_000,
    )


def _partitions_without_end(world: World) -> tuple[Any, int]:
    topic = CreatePartitionsTopic(name=TopicName(world.topic), count=i32(_LARGEST_INT32), assignments=None)
    return CreatePartitionsRequest(topics=(topic,), timeout=_SECOND, validate_only=False), 1


def _metadata_of_everything(world: World) -> tuple[Any, int]:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=True, include_topic_authorized_operations=True)
    return request, 0


def _acknowledgements_of_all_offsets(world: World) -> tuple[Any, int]:
    batch = AcknowledgementBatch(first_offset=i64(0), last_offset=i64(2**62), acknowledge_types=(i8(1),))
    partition = AcknowledgePartition(partition_index=i32(0), acknowledgement_batches=(batch,))
    return (
        ShareAcknowledgeRequest(
            group_id=GroupId(world.group),
            member_id="member",
            share_session_epoch=i32(1),
            is_renew_ack=False,
            topics=(AcknowledgeTopic(topic_id=world.topic_id, partitions=(partition,)),),
        ),
        1,
    )


def _overlapping_share_state(world: World) -> tuple[Any, int]:
    count = 5000
    batches = tuple(
        StateBatch(
            first_offset=i64(number),
            last_offset=i64(2**62 - number),
            delivery_state=i8(number % 2 * 2),
            delivery_count=i16(1),
        )
        for number in range(count)
    )
    partition = PartitionData(
        partition=i32(0),
        state_epoch=i32(0),
        leader_epoch=i32(0),
        start_offset=i64(0),
        delivery_complete_count=i32(0),
        state_batches=batches,
    )
    data = WriteStateData(topic_id=world.topic_id, partitions=(partition,))
    return WriteShareGroupStateRequest(group_id=GroupId(world.group), topics=(data,)), count


def _a_large_pattern(world: World) -> tuple[Any, int]:
    # Nested repetitions: each level multiplies what the expression compiles to.
    pattern = "((((a{0,30}){0,30}){0,30}b?){1,30}|" * 20 + "x" + ")" * 20
    return (
        ConsumerGroupHeartbeatRequest(
            group_id=GroupId("patterns"),
            member_id="AAAAAAAAAAAAAAAAAAAAAA",
            member_epoch=i32(0),
            instance_id=None,
            rack_id=None,
            rebalance_timeout=_MINUTE,
            subscribed_topic_names=None,
            subscribed_topic_regex=pattern,
            server_assignor=None,
            topic_partitions=(),
        ),
        0,
    )


def _many_protocols(world: World) -> tuple[Any, int]:
    count = 5000
    protocols = tuple(JoinGroupRequestProtocol(name=f"p{number}", metadata=b"") for number in range(count))
    return (
        JoinGroupRequest(
            group_id=GroupId("protocols"),
            session_timeout=_MINUTE,
            rebalance_timeout=_MINUTE,
            member_id="",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=protocols,
            reason=None,
        ),
        count,
    )


def _one_partition_many_times(world: World) -> tuple[Any, int]:
    count = 20_000
    asked = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(1))
    topic = ListOffsetsTopic(name=TopicName(world.topic), partitions=(asked,) * count)
    return (
        ListOffsetsRequest(replica_id=BrokerId(-1), isolation_level=i8(0), topics=(topic,), timeout=_SECOND),
        count,
    )


def _one_topic_described_many_times(world: World) -> tuple[Any, int]:
    count = 10_000
    resource = DescribeConfigsResource(resource_type=i8(2), resource_name=world.topic, configuration_keys=None)
    return (
        DescribeConfigsRequest(resources=(resource,) * count, include_synonyms=True, include_documentation=True),
        count,
    )


def _a_list_that_grows(world: World) -> tuple[Any, int]:
    config = AlterableConfig(name="cleanup.policy", config_operation=i8(2), value=",".join(map(str, range(6000))))
    resource = AlterConfigsResource(resource_type=i8(2), resource_name=world.topic, configs=(config,))
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1


def _quotas_of_many_users(world: World) -> tuple[Any, int]:
    count = 5000
    entries = tuple(
        EntryData(
            entity=(EntityData(entity_type="user", entity_name=f"u{number}"),),
            ops=(OpData(key="producer_byte_rate", value=1024.0, remove=False),),  # type: ignore[arg-type]
        )
        for number in range(count)
    )
    return AlterClientQuotasRequest(entries=entries, validate_only=True), 3 * count


def _markers_for_one_partition(world: World) -> tuple[Any, int]:
    count = 20_000
    topic = WritableTxnMarkerTopic(name=TopicName(world.topic), partition_indexes=(i32(0),) * count)
    marker = WritableTxnMarker(
        producer_id=ProducerId(77),
        producer_epoch=i16(0),
        transaction_result=True,
        topics=(topic,),
        coordinator_epoch=i32(0),
        transaction_version=i8(0),
    )
    return WriteTxnMarkersRequest(markers=(marker,)), count


def _a_transaction_of_many_partitions(world: World) -> tuple[Any, int]:
    count = 20_000
    topic = AddPartitionsToTxnTopic(name=TopicName(world.topic), partitions=(i32(0), i32(1)) * (count // 2))
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=TransactionalId("t"),
        producer_id=ProducerId(1),
        producer_epoch=i16(0),
        verify_only=False,
        topics=(topic,),
    )
    return AddPartitionsToTxnRequest(transactions=(transaction,)), count


def _offsets_of_fifty_thousand_partitions(world: World) -> tuple[Any, int]:
    count = 50_000
    partitions = tuple(
        OffsetCommitRequestPartition(
            partition_index=i32(number % 4),
            committed_offset=i64(1),
            committed_leader_epoch=i32(-1),
            committed_metadata="",
        )
        for number in range(count)
    )
    return (
        OffsetCommitRequest(
            group_id=GroupId("many-offsets"),
            generation_id_or_member_epoch=i32(-1),
            member_id="",
            group_instance_id=None,
            topics=(OffsetCommitRequestTopic(name=TopicName(world.topic), partitions=partitions),),
        ),
        count,
    )


EXPENSIVE: Final = [
    Expensive(request.__name__.strip("_").replace("_", " "), request)
    for request in (
        _a_topic_of_too_many_partitions,
        _a_topic_with_a_huge_assignment,
        _partitions_without_end,
        _metadata_of_everything,
        _acknowledgements_of_all_offsets,
        _overlapping_share_state,
        _a_large_pattern,
        _many_protocols,
        _one_partition_many_times,
        _one_topic_described_many_times,
        _a_list_that_grows,
        _quotas_of_many_users,
        _markers_for_one_partition,
        _a_transaction_of_many_partitions,
        _offsets_of_fifty_thousand_partitions,
    )
]
