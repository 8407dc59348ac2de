"""The Java client's settings and how each is handled here: translated, read by source or sink, ignored, or rejected."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from catchment.client.errors import SettingsError

_CONVERT: Final = (
    "Export it as PEM (keytool -importkeystore to PKCS12, then openssl pkcs12 -in … -out ….pem -nodes) "
    "and name that file in kafka.{name}."
)
_LOGIN_MODULE: Final = re.compile(r"\s*(?:[\w.]*\.)?(?P<module>\w+)\s+\w+\s(?P<pairs>.*)", re.DOTALL)
_PAIR: Final = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;]+))")
_ESCAPED: Final = re.compile(r"\\(.)")


def _login(given: Mapping[str, str]) -> dict[str, str]:
    """User name and password out of a JAAS line, for the two modules that have these."""
    found = _LOGIN_MODULE.fullmatch(given["sasl.jaas.config"])
    if found is None or found["module"] not in ("PlainLoginModule", "ScramLoginModule"):
        raise SettingsError(
            "the option kafka.sasl.jaas.config cannot be used here",
            "Give kafka.sasl.mechanism (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), kafka.sasl.username and "
            "kafka.sasl.password instead; PlainLoginModule and ScramLoginModule are understood too.",
        )
    pairs = {
        name: _ESCAPED.sub(r"\1", double or single) if double or single else bare
        for name, double, single, bare in _PAIR.findall(found["pairs"])
    }
    missing = [name for name in ("username", "password") if name not in pairs]
    if missing:
        raise SettingsError(f"the option kafka.sasl.jaas.config names no {missing[0]}", 'Write username="…" in it.')
    return {"sasl.username": pairs["username"], "sasl.password": pairs["password"]}


def _pem_store(java_name: str, *names: str) -> Callable[[Mapping[str, str]], dict[str, str]]:
    """A store that is a PEM file goes by other names here; others cannot be read."""

    def translate(given: Mapping[str, str]) -> dict[str, str]:
        location = given[java_name]
        kind = given.get(java_name.replace("location", "type"), "").upper()
        if kind != "PEM" and not _is_pem(location):
            raise SettingsError(
                f"the option kafka.{java_name} names {location}, which is not a PEM file",
                _CONVERT.format(name=names[0]),
            )
        return dict.fromkeys(names, location)

    return translate


def _inline(java_name: str, name: str) -> Callable[[Mapping[str, str]], dict[str, str]]:
    def translate(given: Mapping[str, str]) -> dict[str, str]:
        raise SettingsError(
            f"the option kafka.{java_name} holds a certificate or key itself",
            f"Write it to a file that every worker can read, and name that in kafka.{name}.",
        )

    return translate


def _is_pem(location: str) -> bool:
    try:
        return Path(location).read_bytes()[:4096].lstrip().startswith(b"-----BEGIN")
    except OSError:
        # The client says which file cannot be read.
        return location.endswith((".pem", ".crt", ".cer"))


TRANSLATED: Final[dict[str, Callable[[Mapping[str, str]], dict[str, str]]]] = {
    "sasl.jaas.config": _login,
    "ssl.truststore.location": _pem_store("ssl.truststore.location", "ssl.ca.location"),
    "ssl.keystore.location": _pem_store("ssl.keystore.location", "ssl.certificate.location", "ssl.key.location"),
    "ssl.truststore.certificates": _inline("ssl.truststore.certificates", "ssl.ca.location"),
    "ssl.keystore.certificate.chain": _inline("ssl.keystore.certificate.chain", "ssl.certificate.location"),
    "ssl.keystore.key": _inline("ssl.keystore.key", "ssl.key.location"),
}

_DECODED: Final = "Keys and values come as bytes: cast them, or set keyFormat and valueFormat."
_ENCODED: Final = "Keys and values are written as the strings or bytes that the columns hold."
_TLS: Final = (
    "Leave it out: connections use TLS 1.2 or 1.3 with the cipher suites that Python allows. To allow fewer, restrict the listener of "
    "the brokers."
)
REFUSED: Final[dict[str, str]] = {
    "auto.offset.reset": "Set startingOffsets, which says where a query begins; Spark keeps track from there.",
    "enable.auto.commit": "Spark's checkpoint holds the offsets; they are committed to a group after each batch.",
    "interceptor.classes": "Java classes cannot run here; transform the rows with Spark.",
    "key.deserializer": _DECODED,
    "value.deserializer": _DECODED,
    "key.serializer": _ENCODED,
    "value.serializer": _ENCODED,
    "partitioner.class": (
        "Java classes cannot run here: a key goes to the partition that Kafka's default partitioner chooses. Choose another in a column "
        "named partition."
    ),
    "partitioner.ignore.keys": (
        "A key always chooses the partition, as readers who need its records in order expect. Choose another in a column named partition."
    ),
    # A setting that restricts which peers a client accepts must not be ignored.
    "ssl.cipher.suites": _TLS,
    "ssl.enabled.protocols": _TLS,
    "ssl.engine.factory.class": "Java classes cannot run here; name PEM files in kafka.ssl.ca.location and its like.",
}

ROLE_SETTINGS: Final = frozenset(
    {
        "bootstrap.servers",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "default.api.timeout.ms",
        "delivery.timeout.ms",
        "group.id",
        "isolation.level",
        "max.request.size",
        "metadata.max.age.ms",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
"""Settings that source and sink read themselves."""

IGNORED: Final = frozenset(
    {
        "acks",
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "batch.size",
        "buffer.memory",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "enable.idempotence",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "security.providers",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.keymanager.algorithm",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "throw.on.fetch.stable.offset.unsupported",
        "transaction.two.phase.commit.enable",
    }
)
"""Settings that tune the Java client and have no effect here."""
