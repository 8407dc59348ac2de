"""The client's settings, with the names of Kafka's clients and librdkafka.

An unknown name is rejected with a suggestion: a misspelt `ssl.ca.location` must not be ignored.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal, Self

from catchment.client.errors import SettingsError

DEFAULT_BATCH_BYTES: Final = 1_000_000
"""A little less than brokers accept by default."""

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]


DEFAULT_PORT: Final = 9092
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULTS: Final[dict[str, str]] = {
    "client.id": "catchment",
    "security.protocol": "PLAINTEXT",
    "ssl.ca.location": "",
    "ssl.certificate.location": "",
    "ssl.key.location": "",
    "ssl.key.password": "",
    "ssl.endpoint.identification.algorithm": "https",
    "sasl.mechanism": "",
    "sasl.username": "",
    "sasl.password": "",
    "request.timeout.ms": "30000",
    "retry.backoff.ms": "100",
    "retry.backoff.max.ms": "1000",
    "socket.connection.setup.timeout.ms": "10000",
}
_ALIASES: Final = {"sasl.mechanisms": "sasl.mechanism"}
KNOWN_SETTINGS: Final = frozenset(DEFAULTS) | frozenset(_ALIASES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The user, and how to authenticate."""

    mechanism: str
    username: str
    # A password does not belong in a traceback or a log.
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.username!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How to connect. `credentials` and `tls` are None if the security protocol does not use them."""

    client_id: str
    tls: ssl.SSLContext | None
    credentials: Credentials | None
    request_timeout_s: float
    retry_backoff_s: float
    retry_backoff_max_s: float
    setup_timeout_s: float

    @classmethod
    def read(cls, settings: Mapping[str, str]) -> Self:
        """Parse the given settings, with defaults for the others. The SettingsError names the setting and the problem."""
        texts = dict(DEFAULTS)
        for name, value in settings.items():
            if name not in KNOWN_SETTINGS:
                raise SettingsError(f"unknown client setting {name}", _nearest(name))
            texts[_ALIASES.get(name, name)] = value
        protocol = _choice(texts, "security.protocol", _PROTOCOLS)
        return cls(
            client_id=texts["client.id"],
            tls=_tls(texts) if protocol.endswith("SSL") else None,
            credentials=_credentials(texts) if protocol.startswith("SASL") else None,
            request_timeout_s=_seconds(texts, "request.timeout.ms"),
            retry_backoff_s=_seconds(texts, "retry.backoff.ms"),
            retry_backoff_max_s=_seconds(texts, "retry.backoff.max.ms"),
            setup_timeout_s=_seconds(texts, "socket.connection.setup.timeout.ms"),
        )


def split_address(address: str) -> tuple[str, int]:
    """`host:port`, `[ipv6]:port`, or a host alone on Kafka's default port."""
    host, separator, port_text = address.rpartition(":")
    if not separator or (host.count(":") > 0 and not host.startswith("[")):
        host, port_text = address, str(DEFAULT_PORT)
    port = int(port_text) if port_text.isdecimal() else 0
    if not host or not 0 < port < 65536:
        raise SettingsError(f"{address!r} is not an address", "Write it as host:port, for example 127.0.0.1:9092.")
    return host.strip("[]"), port


def split_addresses(bootstrap_servers: str) -> list[tuple[str, int]]:
    """The addresses of a comma-separated list with at least one entry."""
    return [split_address(server.strip()) for server in bootstrap_servers.split(",")]


def _nearest(name: str) -> str:
    near = get_close_matches(name, KNOWN_SETTINGS, n=1)
    return f"Did you mean {near[0]}?" if near else f"Known are: {', '.join(sorted(KNOWN_SETTINGS))}."


def _choice(texts: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = texts[name].upper()
    if value not in choices:
        raise SettingsError(f"{name} cannot be {texts[name]!r}", f"Choose one of {', '.join(choices)}.")
    return value


def _seconds(texts: Mapping[str, str], name: str) -> float:
    # Callers may give numbers as numbers.
    text = str(texts[name])
    if not text.isdecimal() or int(text) == 0:
        raise SettingsError(f"{name} cannot be {text!r}", "Give a whole number of milliseconds above 0.")
    return int(text) / 1000


def _credentials(texts: Mapping[str, str]) -> Credentials:
    mechanism = _choice(texts, "sasl.mechanism", MECHANISMS)
    for name in ("sasl.username", "sasl.password"):
        if not texts[name]:
            raise SettingsError(f"{texts['security.protocol']} needs {name}")
    return Credentials(mechanism=mechanism, username=texts["sasl.username"], password=texts["sasl.password"])


def _tls(texts: Mapping[str, str]) -> ssl.SSLContext:
    algorithm = texts["ssl.endpoint.identification.algorithm"].lower()
    if algorithm not in ("https", "none", ""):
        raise SettingsError(
            f"ssl.endpoint.identification.algorithm cannot be {algorithm!r}",
            "Leave it out, or set it to none if the broker's certificate does not name its host.",
        )
    for name in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"):
        if texts[name] and not os.access(texts[name], os.R_OK):
            raise SettingsError(f"{name} names {texts[name]}, which cannot be read", "Name a PEM file.")
    authority = texts["ssl.ca.location"] or None
    in_directory = authority is not None and Path(authority).is_dir()
    try:
        # A given authority is the only one trusted, as with Kafka's own clients.
        context = ssl.create_default_context(
            cafile=None if in_directory else authority, capath=authority if in_directory else None
        )
        context.check_hostname = algorithm == "https"
        if certificate := texts["ssl.certificate.location"]:
            key = texts["ssl.key.location"] or None
            # Without this, OpenSSL would ask for the password of an encrypted key on the terminal.
            context.load_cert_chain(certificate, key, password=lambda: texts["ssl.key.password"])
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"the TLS settings do not work: {error}",
            "ssl.ca.location, ssl.certificate.location and ssl.key.location name PEM files; "
            "ssl.key.password opens the key if it is encrypted.",
        ) from error
    return context
