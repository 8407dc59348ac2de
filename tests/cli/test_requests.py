"""Single requests to single brokers: which broker they reach, and the errors if none answers."""

import socket

import pytest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.errors import ErrorCode
from kio.schema.vote.v2.request import VoteRequest
from kio.static.primitive import i8

from catchment.cli.failure import CommandError
from catchment.cli.requests import GROUP, Coordinator, Target, open_requests, refused

CLUSTER = DescribeClusterRequest(
    include_cluster_authorized_operations=False, endpoint_type=i8(1), include_fenced_brokers=False
)


@pytest.mark.parametrize("target", ["any", "controller", 1, Coordinator("a-group", GROUP)])
def test_a_request_reaches_the_broker_that_it_is_for(bootstrap_servers: str, target: Target) -> None:
    with open_requests(f"127.0.0.1:1,{bootstrap_servers}", {}, 20) as requests:
        answer = requests.ask(CLUSTER, to=target)
        assert [broker.broker_id for broker in answer.brokers] == requests.broker_ids() == [1]


def test_a_broker_that_does_not_exist_is_reported(bootstrap_servers: str) -> None:
    with (
        open_requests(bootstrap_servers, {}, 20) as requests,
        pytest.raises(CommandError, match="the cluster has no broker 77"),
    ):
        requests.ask(CLUSTER, to=77)


def test_a_request_that_the_broker_does_not_serve_is_reported(bootstrap_servers: str) -> None:
    vote = VoteRequest(cluster_id=None, topics=())
    with (
        open_requests(bootstrap_servers, {}, 20) as requests,
        pytest.raises(CommandError, match="does not serve Vote"),
    ):
        requests.ask(vote)


def test_a_server_that_never_answers_fails_after_the_timeout() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with (
            open_requests(address, {}, 0.3) as requests,
            pytest.raises(CommandError, match=f"no response from {address} in time"),
        ):
            requests.ask(CLUSTER)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism cannot be 'GSSAPI'"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "k"}, "unknown client setting ssl.keystore.location"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such.pem"}, "names /no/such.pem"),
    ],
)
def test_unsupported_security_settings_are_rejected(
    bootstrap_servers: str, settings: dict[str, str], told: str
) -> None:
    with pytest.raises(CommandError, match=told), open_requests(bootstrap_servers, settings, 1):
        pass


def test_a_plain_listener_is_never_mistaken_for_an_encrypted_one(bootstrap_servers: str) -> None:
    with (
        open_requests(bootstrap_servers, {"security.protocol": "SSL"}, 1) as requests,
        pytest.raises(CommandError, match=bootstrap_servers),
    ):
        requests.ask(CLUSTER)


def test_settings_for_librdkafka_alone_are_left_to_it(bootstrap_servers: str) -> None:
    with open_requests(bootstrap_servers, {"log_level": "0", "statistics.interval.ms": "0"}, 20) as requests:
        assert requests.broker_ids() == [1]


def test_an_error_code_is_reported_with_the_brokers_message_or_its_name() -> None:
    assert refused("cannot x", ErrorCode.invalid_request, "no such key").message == (
        "cannot x: no such key (INVALID_REQUEST)"
    )
    assert refused("cannot x", ErrorCode.not_controller, None).message == "cannot x: not controller (NOT_CONTROLLER)"
