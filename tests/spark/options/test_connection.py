"""The options that begin with `kafka.`: what the client takes, what is translated from Java's names, and what is refused."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from catchment.client.errors import SettingsError
from catchment.spark.options.connection import _MOST_CLUSTERS, Connection, _clusters
from catchment.spark.options.java_settings import IGNORED, REFUSED, ROLE_SETTINGS, TRANSLATED
from catchment.testing.embedded import Broker

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def connection(**settings: str) -> Connection:
    return Connection.read(SERVERS | {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()})


def test_the_servers_are_needed() -> None:
    with pytest.raises(SettingsError, match=r"kafka\.bootstrap\.servers is missing"):
        Connection.read({"subscribe": "orders"})


def test_names_know_no_upper_case() -> None:
    assert Connection.read({"Kafka.Bootstrap.Servers": "a:1", "KAFKA.CLIENT.ID": "me"}) == Connection(
        "a:1", (("client.id", "me"),)
    )


def test_an_address_that_is_none_is_reported() -> None:
    with pytest.raises(SettingsError, match="is not an address"):
        Connection.read({"kafka.bootstrap.servers": "host:port"})


def test_a_misspelt_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"Did you mean kafka\.security\.protocol\?"):
        connection(security_protocoll="PLAINTEXT")


def test_a_name_that_resembles_none_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"unknown option kafka\.xyzzy\. Leave it out"):
        connection(xyzzy="1")


@pytest.mark.parametrize("name", sorted(IGNORED | ROLE_SETTINGS - {"bootstrap.servers", "default.api.timeout.ms"}))
def test_what_tunes_a_java_client_is_ignored(name: str) -> None:
    assert Connection.read(SERVERS | {f"kafka.{name}": "1"}) == Connection("127.0.0.1:9092")


def test_the_time_for_a_call_can_be_set() -> None:
    assert connection().timeout_s == 30
    assert connection(default_api_timeout_ms="1500").timeout_s == 1.5
    with pytest.raises(SettingsError, match=r"kafka\.default\.api\.timeout\.ms cannot be 'soon'"):
        connection(default_api_timeout_ms="soon")


@pytest.mark.parametrize("name", sorted({*REFUSED, "partitioner.class", "partitioner.ignore.keys"}))
def test_what_would_mislead_is_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Connection.read(SERVERS | {f"kafka.{name}": "1"})
    assert name in refused.value.message
    assert refused.value.advice


@pytest.mark.parametrize("module", ["plain.PlainLoginModule", "scram.ScramLoginModule"])
def test_a_jaas_line_gives_name_and_password(module: str) -> None:
    line = f'org.apache.kafka.common.security.{module} required username="me" password="a \\"b\\";c" ;'
    made = connection(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=line)
    assert dict(made.settings)["sasl.username"] == "me"
    assert dict(made.settings)["sasl.password"] == 'a "b";c'


def test_an_empty_password_in_a_jaas_line_is_reported_and_not_accepted() -> None:
    line = "PlainLoginModule required username=me password='';"
    with pytest.raises(SettingsError, match=r"needs sasl\.password"):
        connection(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "cannot be used here"),
        ("nonsense", "cannot be used here"),
        ('PlainLoginModule required username="me";', "names no password"),
    ],
)
def test_a_jaas_line_that_cannot_be_used_is_reported(line: str, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        connection(sasl_jaas_config=line)


def test_a_pem_store_is_taken_and_a_java_store_refused(tmp_path: Path) -> None:
    pem, store = tmp_path / "ca", tmp_path / "ca.jks"
    pem.write_text("-----BEGIN CERTIFICATE-----\n")
    store.write_bytes(b"\xfe\xed\xfe\xed")
    assert dict(connection(ssl_truststore_location=str(pem)).settings) == {"ssl.ca.location": str(pem)}
    assert dict(connection(ssl_keystore_location=str(pem)).settings) == {
        "ssl.certificate.location": str(pem),
        "ssl.key.location": str(pem),
    }
    with pytest.raises(SettingsError, match=r"not a PEM file.*kafka\.ssl\.ca\.location"):
        connection(ssl_truststore_location=str(store))


@pytest.mark.parametrize("name", sorted(name for name in TRANSLATED if name.endswith(("certificates", "chain", "key"))))
def test_a_certificate_in_the_option_itself_is_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(SettingsError, match="Write it to a file"):
        Connection.read(SERVERS | {f"kafka.{name}": "-----BEGIN"})


def test_secrets_are_not_shown() -> None:
    made = connection(sasl_username="me", sasl_password="secret-password", ssl_key_password="hush")
    assert "secret-password" not in repr(made)
    assert "hush" not in repr(made)
    assert "me" in repr(made)


def test_it_goes_to_tasks_and_finds_one_cluster_there() -> None:
    with Broker() as broker:
        made = Connection.read({"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.client.id": "x"})
        sent = pickle.loads(pickle.dumps(made))
        assert sent == made
        assert sent.cluster() is made.cluster()
        assert made.cluster().topics() == []
        made.cluster().close()


def test_a_forked_process_gets_a_cluster_of_its_own() -> None:
    made = connection(client_id="forked")
    parent = made.cluster()
    child = os.fork()
    if child == 0:
        os._exit(0 if made.cluster() is not parent else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_few_clusters_are_kept_and_one_that_is_not_connects_again() -> None:
    with Broker() as broker:
        made = [
            Connection.read({"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.client.id": f"many {number}"})
            for number in range(_MOST_CLUSTERS + 3)
        ]
        first = made[0].cluster()
        assert first.topics() == []
        for one in made:
            one.cluster()
        assert sum(pid == os.getpid() for pid, _ in _clusters) == _MOST_CLUSTERS
        assert made[0].cluster() is not first
        assert first.topics() == []
        for cluster in (first, made[0].cluster()):
            cluster.close()
