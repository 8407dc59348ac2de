"""TLS and SASL with Apache Kafka, and the errors for wrong settings."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode
from tests.client.certificates import KEY_PASSWORD
from tests.client.secure_kafka import ODD_USER, PASSWORD, SESSION_MS, USER, SecureKafka
from tests.compat.java_tool import require_java

from catchment.cli.requests import open_requests
from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, SettingsError, Unreachable

SCRAM = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    require_java()
    secure = SecureKafka(tmp_path_factory.mktemp("certificates"))
    with secure.running():
        yield secure


def can_connect(kafka: SecureKafka, listener: str, settings: dict[str, str], timeout_s: float = 20) -> bool:
    """Whether requests to that listener succeed. It takes two connections if it is not the bootstrap one."""
    with Cluster(kafka.address(listener), settings, timeout_s=timeout_s) as cluster:
        with cluster.connection(1) as connection:
            assert connection.name == kafka.address(listener)
        return cluster.broker_ids() == [1]


def tls(kafka: SecureKafka, **settings: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"security.protocol": "SSL", "ssl.ca.location": str(kafka.authority)} | named


def sasl(mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    credentials = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    return {"security.protocol": "SASL_PLAINTEXT", **credentials}


def test_a_listener_with_tls_is_reached(kafka: SecureKafka) -> None:
    assert can_connect(kafka, "SSL", tls(kafka))


def test_a_client_certificate_with_an_encrypted_key_is_sent(kafka: SecureKafka) -> None:
    client = {
        "ssl.certificate.location": str(kafka.client.certificate),
        "ssl.key.location": str(kafka.client.key),
        "ssl.key.password": KEY_PASSWORD,
    }
    assert can_connect(kafka, "MUTUAL", tls(kafka) | client)
    with pytest.raises(SettingsError, match="the TLS settings do not work"):
        can_connect(kafka, "MUTUAL", tls(kafka) | client | {"ssl.key.password": "not this"})


def test_a_listener_that_asks_for_a_client_certificate_says_so(kafka: SecureKafka) -> None:
    with pytest.raises(SettingsError, match=r"ssl\.certificate\.location"):
        can_connect(kafka, "MUTUAL", tls(kafka))


def test_a_certificate_of_an_unknown_authority_is_rejected(kafka: SecureKafka) -> None:
    with pytest.raises(SettingsError, match=r"is not trusted.*ssl\.ca\.location"):
        can_connect(kafka, "SSL", tls(kafka, ssl_ca_location=str(kafka.other_authority)))


def test_a_certificate_for_another_host_is_rejected_unless_the_check_is_disabled(kafka: SecureKafka) -> None:
    with pytest.raises(SettingsError, match=r"is not trusted.*127"):
        can_connect(kafka, "MISNAMED", tls(kafka))
    assert can_connect(kafka, "MISNAMED", tls(kafka, ssl_endpoint_identification_algorithm="none"))


def test_tls_with_a_plain_listener_is_reported(kafka: SecureKafka) -> None:
    with pytest.raises(Unreachable, match="Check that the listener uses TLS"):
        can_connect(kafka, "PLAINTEXT", tls(kafka), timeout_s=5)


@pytest.mark.parametrize("listener", ["SSL", "SASL_PLAINTEXT"])
def test_the_error_of_a_plain_client_names_the_security_protocol(kafka: SecureKafka, listener: str) -> None:
    with pytest.raises(Unreachable, match=r"security\.protocol"):
        can_connect(kafka, listener, {}, timeout_s=5)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_a_user_authenticates_with_the_password(kafka: SecureKafka, mechanism: str) -> None:
    assert can_connect(kafka, "SASL_PLAINTEXT", sasl(mechanism))
    assert can_connect(kafka, "SASL_SSL", sasl(mechanism) | tls(kafka) | {"security.protocol": "sasl_ssl"})


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_user_name_with_special_characters_of_scram_authenticates(kafka: SecureKafka, mechanism: str) -> None:
    assert can_connect(kafka, "SASL_PLAINTEXT", sasl(mechanism, ODD_USER))


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_a_wrong_password_is_reported_at_once(kafka: SecureKafka, mechanism: str) -> None:
    started_at_s = time.monotonic()
    with pytest.raises(BrokerError, match=r"cannot authenticate as alice.*sasl\.password") as raised:
        can_connect(kafka, "SASL_PLAINTEXT", sasl(mechanism, password="wrong"), timeout_s=120)
    assert raised.value.code is ErrorCode.sasl_authentication_failed
    assert time.monotonic() - started_at_s < 20


def test_an_unsupported_mechanism_is_reported_with_the_supported_ones(kafka: SecureKafka) -> None:
    with pytest.raises(BrokerError, match="it offers PLAIN, not SCRAM-SHA-512") as raised:
        can_connect(kafka, "BRIEF", sasl("SCRAM-SHA-512"))
    assert raised.value.code is ErrorCode.unsupported_sasl_mechanism


def test_a_session_that_ends_is_replaced(kafka: SecureKafka) -> None:
    with Cluster(kafka.address("BRIEF"), sasl("PLAIN")) as cluster, cluster.connection(1) as connection:
        deadline_s = time.monotonic() + 30
        asked = 0
        while connection.is_open:
            assert time.monotonic() < deadline_s, f"a session of {SESSION_MS} ms did not end"
            assert cluster.broker_ids() == [1]
            asked += 1
        assert asked > 1
        assert cluster.broker_ids() == [1]


def test_commands_for_single_brokers_authenticate_too(kafka: SecureKafka) -> None:
    settings = sasl("SCRAM-SHA-256") | tls(kafka) | {"security.protocol": "SASL_SSL"}
    with open_requests(kafka.address("SASL_SSL"), settings, 20) as requests:
        assert requests.broker_ids() == [1]
