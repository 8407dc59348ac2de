"""An Apache Kafka broker with a listener of every security protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from tests.client.certificates import Authority, Pair

from catchment.bench.peers.kafka import KafkaServer
from catchment.ports.network import free_port

USER = "alice"
ODD_USER = "a=b,c"
PASSWORD = "wonder-land"
SESSION_MS = 2_000

_LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "MISNAMED": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "BRIEF": "SASL_PLAINTEXT",
}
_PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="broker" password="unused" user_{USER}="{PASSWORD}";'
)
_SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class SecureKafka:
    """The addresses of its listeners, and what a client needs to authenticate."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory, "authority")
        self.authority = authority.certificate
        self.other_authority = Authority(directory, "other").certificate
        self.client: Pair = authority.encrypted(authority.issue("client", "DNS:client"))
        self._key_store = authority.key_store(authority.issue("broker", "IP:127.0.0.1"))
        self._misnamed_key_store = authority.key_store(authority.issue("misnamed", "DNS:elsewhere.example"))
        self._ports = {name: free_port() for name in _LISTENERS}

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    @contextmanager
    def running(self) -> Iterator[None]:
        server = KafkaServer(self._settings())
        server.port = self._ports["PLAINTEXT"]
        with server:
            self._add_scram_users()
            yield

    def _settings(self) -> dict[str, str]:
        listeners = {name: f"{name}://{self.address(name)}" for name in _LISTENERS}
        settings = {
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(text for name, text in listeners.items() if name != "CONTROLLER"),
            "controller.quorum.voters": f"1@{self.address('CONTROLLER')}",
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in _LISTENERS.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._key_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.misnamed.ssl.keystore.type": "PEM",
            "listener.name.misnamed.ssl.keystore.location": str(self._misnamed_key_store),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.brief.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.brief.plain.connections.max.reauth.ms": str(SESSION_MS),
        }
        for listener in ("sasl_plaintext", "sasl_ssl", "brief"):
            settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = _PLAIN_LOGIN
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = _SCRAM_LOGIN
        return settings

    def _add_scram_users(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.address("PLAINTEXT")})
        # A user's credentials can be altered only once in a request.
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            wanted: list[UserScramCredentialAlteration] = [
                UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
                for user in (USER, ODD_USER)
            ]
            for future in admin.alter_user_scram_credentials(wanted).values():
                future.result(30)
