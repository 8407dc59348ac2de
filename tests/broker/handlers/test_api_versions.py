"""ApiVersions over the wire: the table of versions, and the fallback for unknown versions."""

import struct

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.wire import Wire

from catchment.broker.handlers import CLAIMS

REQUEST = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.mark.parametrize("version", range(5))
def test_the_table_is_what_the_handlers_claim(wire: Wire, version: int) -> None:
    answer = wire.ask(REQUEST, version)
    assert answer.error_code is ErrorCode.none
    told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert told.pop(0) == (0, 13)
    assert told == {key: (claim.oldest, claim.newest) for key, claim in CLAIMS.items() if key != 0}


def test_the_features_are_those_that_clients_act_on(wire: Wire) -> None:
    answer = wire.ask(REQUEST, 4)
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert finalized == {"group.version": 1, "metadata.version": 30, "share.version": 1, "transaction.version": 2}
    assert {feature.name: feature.max_version for feature in answer.supported_features} == finalized
    assert {feature.name: feature.min_version for feature in answer.supported_features if feature.min_version} == {
        "metadata.version": 7
    }
    assert answer.finalized_features_epoch >= 0


def test_before_version_4_no_feature_is_said_to_begin_with_0(wire: Wire) -> None:
    answer = wire.ask(REQUEST, 3)
    assert [feature.name for feature in answer.supported_features] == ["metadata.version"]
    assert len(answer.finalized_features) == 4


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "é", "a\n", "a_b"])
def test_a_software_name_or_version_that_kafka_would_not_take_is_an_invalid_request(wire: Wire, name: str) -> None:
    for request in (
        ApiVersionsRequest(client_software_name=name, client_software_version="1"),
        ApiVersionsRequest(client_software_name="a", client_software_version=name),
    ):
        for version in (3, 4):
            answer = wire.ask(request, version)
            assert (answer.error_code, answer.api_keys) == (ErrorCode.invalid_request, ())
            assert answer.finalized_features_epoch == -1
        assert wire.ask(request, 2).error_code is ErrorCode.none


def test_telemetry_is_not_offered() -> None:
    assert not {71, 72} & set(CLAIMS)


def test_an_unknown_version_gets_the_table_in_version_0(wire: Wire) -> None:
    answer = wire.exchange(struct.pack(">hhih", 18, 99, 7, -1))
    correlation_id, error, count = struct.unpack_from(">ihi", answer)
    assert (correlation_id, error, count) == (7, ErrorCode.unsupported_version.value, len(CLAIMS))
    assert len(answer) == 10 + 6 * count


@pytest.mark.parametrize("key_and_version", [(0, 2), (0, 14), (1, 3), (999, 0), (-1, 0)])
def test_a_request_that_is_not_served_ends_the_connection(wire: Wire, key_and_version: tuple[int, int]) -> None:
    with pytest.raises(ConnectionError):
        wire.exchange(struct.pack(">hhih", *key_and_version, 7, -1))
