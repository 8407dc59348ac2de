"""The admin APIs respond as Apache Kafka does, byte by byte: the same requests to both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.elect_leaders.v2.response import ReplicaElectionResult
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.static.primitive import i8
from tests.broker.handlers.wire import Wire
from tests.compat import admin_requests
from tests.compat.admin_requests import EMPTY_TOPIC, FULL_TOPIC, Case
from tests.compat.clients.client import TIMEOUT_S
from tests.compat.java_tool import require_java
from tests.compat.test_share_group_answers import settled

from catchment.bench.peers.kafka import KafkaServer
from catchment.protocol.client import ClientProtocol
from catchment.testing.embedded import Broker

_CORRELATION_BYTES = 4


def prepare(server: Broker | KafkaServer) -> None:
    """Two topics, and a coordinator for groups."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    for created in admin.create_topics([NewTopic(EMPTY_TOPIC, 3, 1), NewTopic(FULL_TOPIC, 1, 1)]).values():
        created.result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": server.bootstrap_servers})
    producer.produce(FULL_TOPIC, b"value", timestamp=1_700_000_000_000)
    assert producer.flush(TIMEOUT_S) == 0
    with Wire(server) as wire:
        find = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=("g",))
        settled(lambda: wire.ask(find, 6).coordinators[0])
        *_, (complete, version) = (case for case in admin_requests.group_protocols() if case.request.group_id)
        settled(lambda: wire.ask(complete, version))


@pytest.fixture(scope="module")
def ours() -> Iterator[Wire]:
    with Broker() as broker:
        prepare(broker)
        with Wire(broker) as wire:
            yield wire


@pytest.fixture(scope="module")
def theirs() -> Iterator[Wire]:
    require_java()
    with KafkaServer({}) as kafka:
        prepare(kafka)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for deleted in admin.delete_topics(["first-record"]).values():
            deleted.result(TIMEOUT_S)
        with Wire(kafka) as wire:
            yield wire


def answers(wire: Wire, cases: Iterable[Case]) -> list[tuple[str, bytes]]:
    """What was asked and what came back, without the correlation id."""
    found = []
    for request, version in cases:
        frame = bytes(ClientProtocol("test").request(request, version))[4:]
        found.append((f"{request} version {version}", wire.exchange(frame)[_CORRELATION_BYTES:]))
    return found


@pytest.mark.parametrize(
    "cases",
    [
        admin_requests.reassignments,
        admin_requests.scram_credentials,
        admin_requests.acls,
        admin_requests.authentication,
        admin_requests.delegation_tokens,
        admin_requests.features,
        admin_requests.offsets,
        admin_requests.software_names,
        admin_requests.group_protocols,
        admin_requests.brokers,
        admin_requests.unknown_quorums,
    ],
    ids=lambda cases: str(cases.__name__),
)
def test_responses_are_those_of_kafka(ours: Wire, theirs: Wire, cases: Callable[[], Iterator[Case]]) -> None:
    assert answers(ours, cases()) == answers(theirs, cases())


def test_every_topic_is_in_the_response_to_an_election_of_all(ours: Wire, theirs: Wire) -> None:
    def results(wire: Wire) -> list[tuple[str, ErrorCode, list[ReplicaElectionResult]]]:
        return [
            (str(request), answer.error_code, sorted(answer.replica_election_results, key=lambda one: str(one.topic)))
            for request, version in admin_requests.elections()
            for answer in [wire.ask(request, version)]
        ]

    assert results(ours) == results(theirs)


def test_partitions_stay_in_their_directory(ours: Wire, theirs: Wire) -> None:
    def results(wire: Wire) -> list[object]:
        (directory,) = wire.ask(DescribeLogDirsRequest(topics=()), 5).results
        return [wire.ask(request, version) for request, version in admin_requests.log_directories(directory.log_dir)]

    assert results(ours) == results(theirs)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_the_one_node(ours: Wire, theirs: Wire, version: int) -> None:
    def shape(wire: Wire) -> object:
        answer = wire.ask(admin_requests.quorum(), version)
        ((partition,),) = [topic.partitions for topic in answer.topics]
        assert partition.leader_epoch >= 1
        assert partition.high_watermark > 0
        assert [voter.log_end_offset for voter in partition.current_voters] == [partition.high_watermark]
        times = [voter.last_fetch_timestamp > 0 for voter in partition.current_voters]
        voters = [(voter.replica_id, voter.replica_directory_id) for voter in partition.current_voters]
        nodes = [(node.node_id, len(node.listeners)) for node in answer.nodes]
        codes = (answer.error_code, answer.error_message, partition.error_code, partition.error_message)
        return codes, partition.leader_id, voters, times, partition.observers, nodes

    assert shape(ours) == shape(theirs)


def test_the_features_are_those_of_kafka_except_for_the_missing_ones(ours: Wire, theirs: Wire) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    missing = {"eligible.leader.replicas.version", "kraft.version", "streams.version"}
    for version in (3, 4):
        found = [
            (
                {feature for feature in answer.supported_features if feature.name not in missing},
                {feature for feature in answer.finalized_features if feature.name not in missing},
            )
            for answer in (ours.ask(request, version), theirs.ask(request, version))
        ]
        assert found[0] == found[1]


def test_no_api_version_is_advertised_that_kafka_does_not_have(ours: Wire, theirs: Wire) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    mine, kafkas = (
        {api.api_key: (api.min_version, api.max_version) for api in wire.ask(request, 4).api_keys}
        for wire in (ours, theirs)
    )
    assert {key: kafkas.get(key) for key in mine} == mine
