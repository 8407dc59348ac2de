"""Differences between versions, API by API. kafka-python, which has its own schemas, reads what we lower."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.api_versions.v4.response import ApiVersionsResponse, SupportedFeatureKey
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.request import FetchRequest, ReplicaState
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.join_group.v9.response import JoinGroupResponse
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.offset_commit.v10.request import OffsetCommitRequest, OffsetCommitRequestPartition
from kio.schema.offset_fetch.v10.response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
)
from kio.schema.types import BrokerId, GroupId, ProducerId, TopicName, TransactionalId
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64
from tests.protocol import their_messages

from catchment.protocol.adapters.describe_transactions import DescribeTransactionsResponse, TransactionState
from catchment.protocol.adapters.fetch import FetchTopic
from catchment.protocol.adapters.offset_commit import OffsetCommitRequestTopic
from catchment.protocol.adapters.offset_fetch import OffsetFetchResponseTopics
from catchment.protocol.adapters.update_features import SAFE_DOWNGRADE, UpdateFeaturesResponse
from catchment.protocol.codec import decode_request, decode_response, encode_request, encode_response

NO_WAIT = i32Timedelta.parse(timedelta(0))
TOPIC_ID = UUID(int=7)


def test_metadata_version_0_requests_all_topics_with_an_empty_list() -> None:
    assert decode_request(3, 0, their_messages.MetadataRequest(version=0, topics=[]).encode()).topics is None
    assert decode_request(3, 1, their_messages.MetadataRequest(version=1, topics=[]).encode()).topics == ()
    assert decode_request(3, 1, their_messages.MetadataRequest(version=1, topics=None).encode()).topics is None


def test_metadata_of_old_versions_allows_topic_creation() -> None:
    assert decode_request(3, 3, b"\xff\xff\xff\xff").allow_auto_topic_creation is True
    assert decode_request(3, 4, b"\xff\xff\xff\xff\x00").allow_auto_topic_creation is False


def test_metadata_version_0_cannot_request_no_topics() -> None:
    with pytest.raises(ValueError, match="version 0"):
        encode_request(MetadataRequest(topics=(), include_topic_authorized_operations=False), 0)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_has_one_key_or_many(version: int) -> None:
    keys = ("mine",) if version < 4 else ("mine", "yours")
    request = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=keys)
    wire = encode_request(request, version)
    theirs = their_messages.FindCoordinatorRequest.decode(wire, version=version)
    assert (theirs.key if version < 4 else tuple(theirs.coordinator_keys)) == ("mine" if version < 4 else keys)
    assert decode_request(10, version, wire) == request


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_responds_with_one_or_many(version: int) -> None:
    coordinator = Coordinator(
        key="mine",
        node_id=BrokerId(3),
        host="localhost",
        port=i32(9092),
        error_code=ErrorCode.none,
        error_message=None,
    )
    wire = encode_response(FindCoordinatorResponse(throttle_time=NO_WAIT, coordinators=(coordinator,)), version)
    theirs = their_messages.FindCoordinatorResponse.decode(wire, version=version)
    theirs = theirs if version < 4 else theirs.coordinators[0]
    assert (theirs.node_id, theirs.host, theirs.port) == (3, "localhost", 9092)


def test_an_old_version_cannot_carry_two_keys() -> None:
    with pytest.raises(ValueError, match="too many values"):
        encode_request(FindCoordinatorRequest(coordinator_keys=("mine", "yours")), 3)


@pytest.mark.parametrize("version", range(10))
def test_join_group_without_a_protocol_is_an_empty_string_before_version_7(version: int) -> None:
    response = JoinGroupResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.member_id_required,
        generation_id=i32(-1),
        protocol_name=None,
        leader="",
        member_id="m",
        members=(),
    )
    theirs = their_messages.JoinGroupResponse.decode(encode_response(response, version), version=version)
    assert theirs.protocol_name == ("" if version < 7 else None)
    assert theirs.member_id == "m"


@pytest.mark.parametrize("version", range(6))
def test_leave_group_has_one_member_or_many(version: int) -> None:
    request = LeaveGroupRequest(group_id=GroupId("g"), members=(MemberIdentity(member_id="m"),))
    wire = encode_request(request, version)
    theirs = their_messages.LeaveGroupRequest.decode(wire, version=version)
    assert (theirs.member_id if version < 3 else theirs.members[0].member_id) == "m"
    assert decode_request(13, version, wire) == request


def test_leave_group_responds_to_old_clients_with_the_error_of_the_only_member() -> None:
    member = MemberResponse(member_id="m", group_instance_id=None, error_code=ErrorCode.unknown_member_id)
    response = LeaveGroupResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, members=(member,))
    assert decode_response(13, 2, encode_response(response, 2)).error_code is ErrorCode.unknown_member_id
    assert decode_response(13, 3, encode_response(response, 3)) == response


def test_delete_topics_by_name_and_by_id() -> None:
    by_name = DeleteTopicsRequest(topics=(DeleteTopicState(name=TopicName("t"), topic_id=None),), timeout=NO_WAIT)
    by_id = DeleteTopicsRequest(topics=(DeleteTopicState(name=None, topic_id=TOPIC_ID),), timeout=NO_WAIT)
    for version in range(1, 7):
        assert decode_request(20, version, encode_request(by_name, version)) == by_name
    assert decode_request(20, 6, encode_request(by_id, 6)) == by_id
    with pytest.raises(TypeError):
        encode_request(by_id, 5)


@pytest.mark.parametrize("version", range(2, 11))
def test_offset_commit_has_names_or_ids(version: int) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=i32(1), committed_offset=i64(42), committed_metadata="note"
    )
    topic = OffsetCommitRequestTopic(topic_id=TOPIC_ID, name=TopicName("t"), partitions=(partition,))
    request = OffsetCommitRequest(group_id=GroupId("g"), member_id="m", topics=(topic,))
    wire = encode_request(request, version)
    (lifted,) = decode_request(8, version, wire).topics
    if version < 10:
        assert their_messages.OffsetCommitRequest.decode(wire, version=version).topics[0].name == "t"
        assert lifted == replace(topic, topic_id=None)
    else:
        assert lifted == replace(topic, name=None)


@pytest.mark.parametrize("version", range(1, 11))
def test_offset_fetch_responds_with_one_group_or_many(version: int) -> None:
    partition = OffsetFetchResponsePartitions(
        partition_index=i32(1), committed_offset=i64(-1), metadata="", error_code=ErrorCode.none
    )
    topic = OffsetFetchResponseTopics(topic_id=TOPIC_ID, name=TopicName("t"), partitions=(partition,))
    group = OffsetFetchResponseGroup(group_id=GroupId("g"), topics=(topic,), error_code=ErrorCode.not_coordinator)
    wire = encode_response(OffsetFetchResponse(throttle_time=NO_WAIT, groups=(group,)), version)
    if version < 10:
        theirs = their_messages.OffsetFetchResponse.decode(wire, version=version)
        their_group = theirs if version < 8 else theirs.groups[0]
        with_error = their_group.topics[0].partitions[0] if version == 1 else their_group
        assert with_error.error_code == ErrorCode.not_coordinator
        assert their_group.topics[0].name == "t"
    (lifted,) = decode_response(9, version, wire).groups
    assert lifted.topics[0].name == ("t" if version < 10 else None)
    assert lifted.group_id == ("g" if version >= 8 else "")


def test_add_partitions_to_txn_responds_to_a_client_with_its_only_transaction() -> None:
    partition = AddPartitionsToTxnPartitionResult(partition_index=i32(4), partition_error_code=ErrorCode.none)
    topic = AddPartitionsToTxnTopicResult(name=TopicName("t"), results_by_partition=(partition,))
    result = AddPartitionsToTxnResult(transactional_id=TransactionalId("x"), topic_results=(topic,))
    response = AddPartitionsToTxnResponse(
        throttle_time=NO_WAIT, error_code=ErrorCode.none, results_by_transaction=(result,)
    )
    for version in range(6):
        (lifted,) = decode_response(24, version, encode_response(response, version)).results_by_transaction
        assert lifted == (result if version > 3 else replace(result, transactional_id=TransactionalId("")))


def test_update_features_has_downgrades_and_a_result_for_each_feature() -> None:
    update = FeatureUpdateKey(feature="f", max_version_level=i16(1), upgrade_type=SAFE_DOWNGRADE)
    request = UpdateFeaturesRequest(feature_updates=(update,))
    assert decode_request(57, 0, encode_request(request, 0)) == request
    result = UpdatableFeatureResult(feature="f", error_code=ErrorCode.none, error_message=None)
    response = UpdateFeaturesResponse(
        throttle_time=NO_WAIT, error_code=ErrorCode.none, error_message=None, results=(result,)
    )
    assert decode_response(57, 1, encode_response(response, 1)) == response
    assert decode_response(57, 2, encode_response(response, 2)) == replace(response, results=())


def test_api_versions_hides_features_that_start_at_0_from_older_clients() -> None:
    features = tuple(SupportedFeatureKey(name=f"f{low}", min_version=i16(low), max_version=i16(2)) for low in (0, 1))
    response = ApiVersionsResponse(
        error_code=ErrorCode.none, api_keys=(), throttle_time=NO_WAIT, supported_features=features
    )
    assert [one.name for one in decode_response(18, 3, encode_response(response, 3)).supported_features] == ["f1"]
    assert decode_response(18, 4, encode_response(response, 4)) == response


def test_list_config_resources_version_0_requests_client_metrics() -> None:
    assert decode_request(74, 0, b"\x00").resource_types == (16,)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_keeps_the_replica_id_in_every_version(version: int) -> None:
    topic = FetchTopic(topic_id=TOPIC_ID, topic=TopicName("t"), partitions=())
    request: Any = FetchRequest(
        replica_state=ReplicaState(replica_id=BrokerId(5)),
        max_wait=NO_WAIT,
        min_bytes=i32(1),
        topics=(topic,),
        forgotten_topics_data=(),
    )
    lifted = decode_request(1, version, encode_request(request, version))
    assert lifted.replica_state.replica_id == 5
    assert lifted.topics == (replace(topic, topic_id=None) if version < 13 else replace(topic, topic=None),)


@pytest.mark.parametrize("start_ms", [None, 0, 1_700_000_000_123])
def test_a_transaction_that_has_not_started_is_described(start_ms: int | None) -> None:
    start = None if start_ms is None else datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=start_ms)
    state = TransactionState(
        error_code=ErrorCode.none,
        transactional_id=TransactionalId("x"),
        transaction_state="Empty",
        transaction_timeout=NO_WAIT,
        transaction_start_time=start,
        producer_id=ProducerId(1),
        producer_epoch=i16(0),
        topics=(),
    )
    response = DescribeTransactionsResponse(throttle_time=NO_WAIT, transaction_states=(state,))
    wire = encode_response(response, 0)
    assert (-1 if start_ms is None else start_ms).to_bytes(8, signed=True) in wire
    assert decode_response(65, 0, wire) == response
