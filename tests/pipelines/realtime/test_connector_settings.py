"""A pipeline's settings for brokers that ask who one is, as Spark's own connector takes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.client.certificates import KEY_PASSWORD
from tests.client.secure_kafka import ODD_USER, PASSWORD, USER, SecureKafka
from tests.compat.java_tool import require_java

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from py4j.java_gateway import get_field

from catchment.client.errors import SettingsError
from catchment.pipelines.realtime.connector_settings import connector_options, quoted, require_readable_key
from catchment.spark.options.connection import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AWKWARD = ["a b", 'say "so"', "back\\slash\\", "it's; so=", "two\nlines\r", "\\n", "ünïcode €"]


def translated(**settings: str) -> dict[str, str]:
    """The settings without what every connection has; an underscore stands for a dot."""
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    found = connector_options({"kafka.bootstrap.servers": "localhost:9092"} | given)
    return {name.removeprefix("kafka."): value for name, value in found.items() if name != "kafka.bootstrap.servers"}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("scram-sha-512", "scram.ScramLoginModule")],
)
def test_user_and_password_become_the_line_that_java_takes(mechanism: str, module: str) -> None:
    found = translated(
        security_protocol="sasl_ssl", sasl_mechanisms=mechanism, sasl_username="crew", sasl_password='say "so"\\'
    )
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism.upper(),
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        r'username="crew" password="say \"so\"\\";',
    }


@pytest.mark.parametrize("text", AWKWARD[:4])
def test_our_own_client_reads_the_same_line(text: str) -> None:
    options = connector_options(
        {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": text, "kafka.sasl.password": text}
    )
    read = dict(Connection.read({"kafka.bootstrap.servers": "localhost:9092"} | options).settings)
    assert (read["sasl.username"], read["sasl.password"]) == (text, text)


def test_a_line_that_is_given_is_left_as_it_is() -> None:
    assert translated(sasl_mechanism="PLAIN", sasl_jaas_config="Module required;", sasl_username="x") == {
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "Module required;",
    }


def test_files_of_certificates_become_stores(tmp_path: Path) -> None:
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    certificate.write_text("-----BEGIN CERTIFICATE-----\n")
    key.write_text("-----BEGIN PRIVATE KEY-----\n")
    found = translated(
        ssl_ca_location="ca.pem",
        ssl_certificate_location=str(certificate),
        ssl_key_location=str(key),
        ssl_key_password="of no use",
        ssl_endpoint_identification_algorithm="none",
    )
    assert found == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----\n",
        "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\n",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_a_file_of_both_holds_the_key_too_and_an_encrypted_one_needs_its_password(tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    found = translated(ssl_certificate_location=str(both), ssl_key_password="opens")
    assert found["ssl.keystore.key"] == found["ssl.keystore.certificate.chain"] == both.read_text()
    assert found["ssl.key.password"] == "opens"


def test_what_java_cannot_read_is_refused_with_what_to_do(tmp_path: Path) -> None:
    key = tmp_path / "client.key"
    key.write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    with pytest.raises(SettingsError, match=r"openssl pkcs8 -topk8 -in .*client\.key"):
        translated(ssl_certificate_location=str(key))
    with pytest.raises(SettingsError, match=r"ssl\.key\.location names nowhere, which cannot be read"):
        translated(ssl_certificate_location=str(key), ssl_key_location="nowhere")
    with pytest.raises(SettingsError, match="Put the certificates into one PEM file"):
        translated(ssl_ca_location=str(tmp_path))
    with pytest.raises(SettingsError, match=r"sasl\.mechanism cannot be 'GSSAPI'"):
        translated(sasl_mechanism="GSSAPI", sasl_username="a", sasl_password="b")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    require_java()
    secure = SecureKafka(tmp_path_factory.mktemp("certificates"))
    with secure.running():
        yield secure


def test_java_reads_a_quoted_text_as_it_was(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    for text in AWKWARD:
        tokens = jvm.java.io.StreamTokenizer(jvm.java.io.StringReader(quoted(text)))
        tokens.nextToken()
        assert get_field(tokens, "sval") == text


def client_certificate(spark: SparkSession, kafka: SecureKafka) -> dict[str, str]:
    """The client's, with its encrypted key where this Java can read that. Between those two versions, Java decides."""
    encrypted = {
        "kafka.ssl.certificate.location": str(kafka.client.certificate),
        "kafka.ssl.key.location": str(kafka.client.key),
        "kafka.ssl.key.password": KEY_PASSWORD,
    }
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    version = jvm.java.lang.Runtime.version().feature()
    said = ""
    try:
        require_readable_key(spark, encrypted)
    except SettingsError as error:
        said = str(error)
    if not said:
        assert version > 17
        return encrypted
    assert version < 25
    assert f"encrypted in a way (PBES2) that Java {version} cannot read" in said
    return encrypted | {"kafka.ssl.key.location": str(kafka.client.key.with_suffix(".key"))}


def test_sparks_connector_writes_and_reads_with_the_settings_of_our_client(
    spark_with_peer: SparkSession, kafka: SecureKafka
) -> None:
    trusted = {"kafka.ssl.ca.location": str(kafka.authority)}
    login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanisms": "SCRAM-SHA-512",
        "kafka.sasl.username": ODD_USER,
        "kafka.sasl.password": PASSWORD,
    }
    certificate = {"kafka.security.protocol": "SSL", **client_certificate(spark_with_peer, kafka)}
    by_login = connector_options({"kafka.bootstrap.servers": kafka.address("SASL_SSL")} | trusted | login)
    by_certificate = connector_options({"kafka.bootstrap.servers": kafka.address("MUTUAL")} | trusted | certificate)
    rows = spark_with_peer.createDataFrame([("a",), ("b",)], "value string")

    rows.write.format("kafka").options(**by_login).option("topic", "secured").save()

    for options in (by_login, by_certificate):
        read = spark_with_peer.read.format("kafka").options(**options).option("subscribe", "secured").load()
        assert sorted(bytes(row.value) for row in read.select("value").collect()) == [b"a", b"b"]


def test_our_own_format_writes_and_reads_with_the_names_that_java_gives_its_settings(
    spark: SparkSession, kafka: SecureKafka
) -> None:
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    options = {
        "kafka.bootstrap.servers": kafka.address("SASL_SSL"),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": login,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(kafka.authority),
    }
    rows = spark.createDataFrame([("a",), ("b",)], "value string")
    rows.write.format("catchment").mode("append").options(**options).option("topic", "ours").save()
    read = spark.read.format("catchment").options(**options).option("subscribe", "ours").load()
    assert sorted(bytes(row.value) for row in read.select("value").collect()) == [b"a", b"b"]
