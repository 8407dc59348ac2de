"""Admin requests whose responses are the same from every Kafka broker with one node and no security."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_replica_log_dirs.v2.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.create_delegation_token.v3.request import CreatableRenewers, CreateDelegationTokenRequest
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_delegation_token.v3.request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest, UserName
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_partition_reassignments.v0.request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.types import BrokerId, GroupId, TopicName
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64, i64Timedelta

EMPTY_TOPIC, FULL_TOPIC, MISSING_TOPIC = map(TopicName, ("empty", "full", "missing"))
"""Three partitions, one partition with a record at 1,700,000,000,000, and none."""

_METADATA = "__cluster_metadata"
_TIMEOUT = i32Timedelta.parse(timedelta(seconds=10))
_DEFAULT_PERIOD = i64Timedelta.parse(timedelta(milliseconds=-1))


class Case(NamedTuple):
    request: Any
    version: int


def reassignments() -> Iterator[Case]:
    yield Case(ListPartitionReassignmentsRequest(topics=None, timeout=_TIMEOUT), 0)
    some = tuple(
        ListPartitionReassignmentsTopics(name=name, partition_indexes=(i32(0), i32(77)))
        for name in (EMPTY_TOPIC, MISSING_TOPIC)
    )
    yield Case(ListPartitionReassignmentsRequest(topics=some, timeout=_TIMEOUT), 0)
    replicas: list[tuple[int, ...] | None] = [(1,), None, (2,), (1, 2), (1, 1), (), (-1,), (1, 2, 2), (2, 1)]
    topics = tuple(
        ReassignableTopic(
            name=name,
            partitions=tuple(
                ReassignablePartition(
                    partition_index=i32(number), replicas=None if brokers is None else tuple(map(BrokerId, brokers))
                )
                for number in (0, 1, 77)
                for brokers in replicas
            ),
        )
        for name in (EMPTY_TOPIC, MISSING_TOPIC, EMPTY_TOPIC, TopicName(""))
    )
    for version in (0, 1):
        for allowed in (True, False):
            request = AlterPartitionReassignmentsRequest(
                timeout=_TIMEOUT, allow_replication_factor_change=allowed, topics=topics
            )
            yield Case(request, version)


def log_directories(path: str) -> Iterator[Case]:
    """`path` is the one directory of the broker."""

    def move(directory: str, topic: TopicName, *numbers: int) -> AlterReplicaLogDir:
        topics = (AlterReplicaLogDirTopic(name=topic, partitions=tuple(map(i32, numbers))),) if numbers else ()
        return AlterReplicaLogDir(path=directory, topics=topics)

    for version in (1, 2):
        for moves in (
            (),
            (move(path, EMPTY_TOPIC),),
            (move(path, EMPTY_TOPIC, 0),),
            (move(path, EMPTY_TOPIC, 77),),
            (move(path, EMPTY_TOPIC, -1),),
            (move(path, MISSING_TOPIC, 0),),
            (move("/nowhere", EMPTY_TOPIC, 0),),
            (move("/nowhere", MISSING_TOPIC, 0),),
            (move(f"{path}/", EMPTY_TOPIC, 0),),
            (move("", EMPTY_TOPIC, 0),),
            (move(path, EMPTY_TOPIC, 0), move("/nowhere", EMPTY_TOPIC, 0)),
            (move("/nowhere", EMPTY_TOPIC, 0), move(path, EMPTY_TOPIC, 0)),
        ):
            yield Case(AlterReplicaLogDirsRequest(dirs=moves), version)


def scram_credentials() -> Iterator[Case]:
    for users in (None, (), ("a", "b"), ("a", "a", "b"), ("",)):
        names = None if users is None else tuple(UserName(name=name) for name in users)
        yield Case(DescribeUserScramCredentialsRequest(users=names), 0)

    def deletion(name: str, mechanism: int) -> ScramCredentialDeletion:
        return ScramCredentialDeletion(name=name, mechanism=i8(mechanism))

    def upsertion(name: str, mechanism: int, iterations: int) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=name, mechanism=i8(mechanism), iterations=i32(iterations), salt=b"salt", salted_password=b"x"
        )

    deletions = (deletion("a", 1), deletion("b", 2), deletion("", 2), deletion("c", 0), deletion("d", 9))
    upsertions = (upsertion("e", 1, 1), upsertion("f", 2, 100_000), upsertion("g", 7, 4096), upsertion("", 1, 4096))
    yield Case(AlterUserScramCredentialsRequest(deletions=(), upsertions=()), 0)
    yield Case(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=()), 0)
    yield Case(AlterUserScramCredentialsRequest(deletions=(), upsertions=upsertions), 0)
    yield Case(AlterUserScramCredentialsRequest(deletions=(deletion("a", 1),) * 2, upsertions=()), 0)


def acls() -> Iterator[Case]:
    describe = DescribeAclsRequest(
        resource_type_filter=i8(1),
        resource_name_filter=None,
        pattern_type_filter=i8(3),
        principal_filter=None,
        host_filter=None,
        operation=i8(1),
        permission_type=i8(1),
    )
    creation = AclCreation(
        resource_type=i8(2),
        resource_name="t",
        resource_pattern_type=i8(3),
        principal="User:a",
        host="*",
        operation=i8(3),
        permission_type=i8(3),
    )
    deletion = DeleteAclsFilter(
        resource_type_filter=i8(2),
        resource_name_filter="t",
        pattern_type_filter=i8(3),
        principal_filter=None,
        host_filter=None,
        operation=i8(1),
        permission_type=i8(1),
    )
    for version in (1, 2, 3):
        yield Case(describe, version)
        for count in (0, 1, 2):
            yield Case(CreateAclsRequest(creations=(creation,) * count), version)
            yield Case(DeleteAclsRequest(filters=(deletion,) * count), version)


def authentication() -> Iterator[Case]:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", ""):
        for version in (0, 1):
            yield Case(SaslHandshakeRequest(mechanism=mechanism), version)
    for version in (0, 1, 2):
        yield Case(SaslAuthenticateRequest(auth_bytes=b"\0user\0password"), version)


def delegation_tokens() -> Iterator[Case]:
    renewers = (CreatableRenewers(principal_type="User", principal_name="renewer"),)
    for version in (1, 2, 3):
        for owner in (None, "bob") if version == 3 else (None,):
            create = CreateDelegationTokenRequest(
                owner_principal_type=None if owner is None else "User",
                owner_principal_name=owner,
                renewers=renewers,
                max_lifetime=_DEFAULT_PERIOD,
            )
            yield Case(create, version)
        owners = (DescribeDelegationTokenOwner(principal_type="User", principal_name="bob"),)
        for named in (None, (), owners):
            yield Case(DescribeDelegationTokenRequest(owners=named), version)
    for version in (1, 2):
        yield Case(RenewDelegationTokenRequest(hmac=b"x", renew_period=_DEFAULT_PERIOD), version)
        yield Case(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period=_DEFAULT_PERIOD), version)


def features() -> Iterator[Case]:
    upgrade, safe, unsafe = 1, 2, 3
    levels = [
        ("transaction.version", 2, upgrade),
        ("transaction.version", 2, safe),
        ("transaction.version", 2, unsafe),
        ("transaction.version", 2, 0),
        ("transaction.version", 2, 4),
        ("transaction.version", 3, upgrade),
        ("transaction.version", 3, unsafe),
        ("transaction.version", 1, upgrade),
        ("group.version", 0, upgrade),
        ("group.version", -1, upgrade),
        ("share.version", 2, safe),
        ("metadata.version", 30, upgrade),
        ("metadata.version", 29, upgrade),
        ("metadata.version", 31, upgrade),
        ("metadata.version", 1, unsafe),
        ("metadata.version", 0, safe),
        ("unknown", 0, upgrade),
        ("unknown", 1, unsafe),
        ("", 1, upgrade),
    ]

    def update(*updates: tuple[str, int, int], validate_only: bool = True) -> UpdateFeaturesRequest:
        keys = tuple(
            FeatureUpdateKey(feature=name, max_version_level=i16(level), upgrade_type=i8(kind))
            for name, level, kind in updates
        )
        return UpdateFeaturesRequest(timeout=_TIMEOUT, feature_updates=keys, validate_only=validate_only)

    for level in levels:
        yield Case(update(level), 2)
    for version in (0, 1, 2):
        yield Case(update(), version)
        yield Case(update(levels[0], validate_only=False), version)
        yield Case(update(levels[0], ("unknown", 1, upgrade)), version)


def elections() -> Iterator[Case]:
    asked = (
        TopicPartitions(topic=EMPTY_TOPIC, partitions=(i32(0), i32(0), i32(77))),
        TopicPartitions(topic=MISSING_TOPIC, partitions=(i32(0),)),
        TopicPartitions(topic=EMPTY_TOPIC, partitions=(i32(1),)),
    )
    for version in (0, 1, 2):
        for kind in (0, 1, 5) if version else (0,):
            for topics in (None, (), asked):
                yield Case(
                    ElectLeadersRequest(election_type=i8(kind), topic_partitions=topics, timeout=_TIMEOUT), version
                )


def offsets() -> Iterator[Case]:
    for version in range(1, 12):
        for topic in (EMPTY_TOPIC, FULL_TOPIC, MISSING_TOPIC):
            for timestamp_ms in (*range(-8, 2), 1_700_000_000_000, 1_700_000_000_001):
                partition = ListOffsetsPartition(
                    partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(timestamp_ms)
                )
                yield Case(_list_offsets(ListOffsetsTopic(name=topic, partitions=(partition,))), version)
    latest = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(-1))
    fenced = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(9), timestamp=i64(-1))
    for partitions in ((latest, latest), (fenced,)):
        yield Case(_list_offsets(ListOffsetsTopic(name=EMPTY_TOPIC, partitions=partitions)), 11)


def _list_offsets(topic: ListOffsetsTopic) -> ListOffsetsRequest:
    return ListOffsetsRequest(replica_id=BrokerId(-1), isolation_level=i8(0), topics=(topic,), timeout=_TIMEOUT)


def software_names() -> Iterator[Case]:
    for version in (3, 4):
        for name in ("", "-a", "a-", "a b", "é", "a\n", "a_b"):
            yield Case(ApiVersionsRequest(client_software_name=name, client_software_version="1"), version)
            yield Case(ApiVersionsRequest(client_software_name="a", client_software_version=name), version)


def group_protocols() -> Iterator[Case]:
    for kind, name in ((None, None), ("consumer", None), (None, "range"), ("consumer", "range")):
        for version in (4, 5):
            for group in ("g", ""):
                request = SyncGroupRequest(
                    group_id=GroupId(group),
                    generation_id=i32(1),
                    member_id="m",
                    group_instance_id=None,
                    protocol_type=kind,
                    protocol_name=name,
                    assignments=(),
                )
                yield Case(request, version)


def brokers() -> Iterator[Case]:
    for broker_id in (7, -1):
        yield Case(UnregisterBrokerRequest(broker_id=BrokerId(broker_id)), 0)


def quorum() -> DescribeQuorumRequest:
    return DescribeQuorumRequest(topics=(_quorum_topic(_METADATA, 0),))


def _quorum_topic(name: str, *numbers: int) -> TopicData:
    partitions = tuple(PartitionData(partition_index=i32(number)) for number in numbers)
    return TopicData(topic_name=TopicName(name), partitions=partitions)


def unknown_quorums() -> Iterator[Case]:
    topic, metadata = _quorum_topic, _METADATA
    for version in (0, 1, 2):
        for topics in (
            (),
            (topic(metadata),),
            (topic(metadata, 1),),
            (topic(metadata, 0, 1),),
            (topic("full", 0),),
            (topic(metadata, 0),) * 2,
        ):
            yield Case(DescribeQuorumRequest(topics=topics), version)
