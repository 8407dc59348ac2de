"""The settings of the client, and the errors for invalid ones."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from catchment.client.cluster import Cluster
from catchment.client.errors import SettingsError
from catchment.client.settings import (
    DEFAULTS,
    KNOWN_SETTINGS,
    ConnectionSettings,
    Credentials,
    split_address,
    split_addresses,
)

LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}


def test_without_settings_the_connection_is_plain() -> None:
    settings = ConnectionSettings.read({})
    assert (settings.tls, settings.credentials, settings.client_id) == (None, None, "catchment")
    assert settings.request_timeout_s == 30


def test_settings_that_the_security_protocol_does_not_use_are_ignored() -> None:
    assert ConnectionSettings.read(LOGIN).credentials is None
    assert ConnectionSettings.read({"security.protocol": "ssl", "sasl.mechanism": "GSSAPI"}).tls is not None


def test_names_of_librdkafka_and_of_kafka_are_both_accepted() -> None:
    given = {"security.protocol": "SASL_PLAINTEXT", **LOGIN, "sasl.mechanisms": "scram-sha-512"}
    del given["sasl.mechanism"]
    credentials = ConnectionSettings.read(given).credentials
    assert credentials == Credentials(mechanism="SCRAM-SHA-512", username="alice", password="secret")
    assert "secret" not in repr(credentials)


def test_milliseconds_are_parsed() -> None:
    settings = ConnectionSettings.read(
        {"request.timeout.ms": "1500", "retry.backoff.ms": "20", "socket.connection.setup.timeout.ms": "250"}
    )
    assert (settings.request_timeout_s, settings.retry_backoff_s, settings.setup_timeout_s) == (1.5, 0.02, 0.25)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl.ca.locaton": "x"}, r"unknown client setting ssl\.ca\.locaton\. Did you mean ssl\.ca\.location\?"),
        ({"ssl.keystore.pem": "x"}, r"unknown client setting ssl\.keystore\.pem"),
        ({"zzz": "x"}, r"unknown client setting zzz\. Known are: client\.id, "),
        ({"security.protocol": "TLS"}, "Choose one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, r"sasl\.mechanism cannot be ''. Choose one of PLAIN, SCRAM-SHA-256"),
        ({"security.protocol": "SASL_SSL", **LOGIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism cannot be 'GSSAPI'"),
        ({"security.protocol": "SASL_SSL", **LOGIN, "sasl.password": ""}, r"SASL_SSL needs sasl\.password"),
        ({"request.timeout.ms": "soon"}, r"request\.timeout\.ms cannot be 'soon'"),
        ({"request.timeout.ms": "0"}, r"request\.timeout\.ms cannot be '0'"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such.pem"}, r"ssl\.ca\.location names /no/such\.pem"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "dns"}, "cannot be 'dns'"),
    ],
)
def test_an_invalid_setting_is_reported_with_what_to_do(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Cluster("127.0.0.1:1", given)


def test_a_file_that_is_no_certificate_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    file.write_text("not a certificate")
    with pytest.raises(SettingsError, match="the TLS settings do not work"):
        ConnectionSettings.read({"security.protocol": "SSL", "ssl.ca.location": str(file)})


def test_a_directory_of_authorities_may_be_named(tmp_path: Path) -> None:
    settings = ConnectionSettings.read({"security.protocol": "SSL", "ssl.ca.location": str(tmp_path)})
    assert settings.tls is not None
    assert settings.tls.get_ca_certs() == []


def test_the_host_name_of_the_broker_is_checked_unless_that_is_disabled() -> None:
    name = "ssl.endpoint.identification.algorithm"
    checked = ConnectionSettings.read({"security.protocol": "SSL"}).tls
    unchecked = ConnectionSettings.read({"security.protocol": "SSL", name: ""}).tls
    assert checked is not None
    assert unchecked is not None
    assert (checked.check_hostname, unchecked.check_hostname) == (True, False)
    assert unchecked.verify_mode is ssl.CERT_REQUIRED


def test_the_reference_names_every_setting_and_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "client.md").read_text()
    message = dict(re.findall(r"^\| `([a-z.]+)` \|(?: `([^`|]*)`)? \|", page, re.MULTILINE))
    assert {name: message.get(name) for name in DEFAULTS} == DEFAULTS
    assert message.keys() <= DEFAULTS.keys()
    assert all(f"`{name}`" in page for name in KNOWN_SETTINGS)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("broker:1234", ("broker", 1234)),
        ("broker", ("broker", 9092)),
        ("[::1]:1234", ("::1", 1234)),
        ("::1", ("::1", 9092)),
    ],
)
def test_addresses_are_parsed(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


def test_a_list_of_servers_is_split_at_commas() -> None:
    assert split_addresses("a:1, b:2") == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("address", ["", "broker:port", ":9092", "broker:0", "broker:65536", "a:1,,b:2"])
def test_an_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(SettingsError, match="is not an address"):
        split_addresses(address)
