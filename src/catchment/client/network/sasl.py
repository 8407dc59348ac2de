"""SASL authentication without I/O: the messages to send, given those received.

PLAIN (RFC 4616) sends the password. SCRAM (RFC 5802, RFC 7677) proves that both sides know it without sending it. The broker's
proof is checked as well, so that an impostor is detected. The standard library has the cryptography but no SASL; the client
of confluent-kafka has SASL but does not expose it.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Generator
from secrets import token_urlsafe
from typing import Final, NamedTuple

from catchment.client.errors import SettingsError
from catchment.client.settings import Credentials

Exchange = Generator[bytes, bytes, None]
"""Yields the next message to send and receives the broker's response; ends when authentication is complete."""

_NONCE_BYTES: Final = 24
# Kafka's clients require at least this many; the upper bound limits the work that a broker can cause.
_FEWEST_ITERATIONS: Final = 4_096
_MOST_ITERATIONS: Final = 1_000_000
_NO_CHANNEL_BINDING: Final = "n,,"
_IMPOSTOR: Final = "The server does not know the password: check the address, and use SASL_SSL to verify the server."


def authenticate(credentials: Credentials, nonce: str | None = None) -> Exchange:
    """The messages of the mechanism in the settings, with a random nonce unless one is given."""
    if credentials.mechanism == "PLAIN":
        return _plain(credentials)
    hash_name = credentials.mechanism.removeprefix("SCRAM-").replace("-", "")
    return _scram(credentials, hash_name, nonce or token_urlsafe(_NONCE_BYTES))


def _plain(credentials: Credentials) -> Exchange:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


def _scram(credentials: Credentials, hash_name: str, nonce: str) -> Exchange:
    username = credentials.username.replace("=", "=3D").replace(",", "=2C")
    client_first = f"n={username},r={nonce}"
    server_first = (yield f"{_NO_CHANNEL_BINDING}{client_first}".encode()).decode(errors="replace")
    challenge = _challenge(server_first, nonce)
    salted = hashlib.pbkdf2_hmac(hash_name, credentials.password.encode(), challenge.salt, challenge.iterations)
    client_final = f"c={b64encode(_NO_CHANNEL_BINDING.encode()).decode()},r={challenge.nonce}"
    signed = f"{client_first},{server_first},{client_final}".encode()
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
    proof = bytes(mine ^ theirs for mine, theirs in zip(client_key, signature, strict=True))
    server_final = yield f"{client_final},p={b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), signed, hash_name)
    if not hmac.compare_digest(server_final.split(b",")[0], b"v=" + b64encode(expected)):
        raise SettingsError("the broker failed to prove its identity", _IMPOSTOR)


class _Challenge(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


def _challenge(server_first: str, nonce: str) -> _Challenge:
    """Parse the broker's first message, which may come from an impostor."""
    attributes = dict(part.partition("=")[::2] for part in server_first.split(","))
    try:
        challenge = _Challenge(attributes["r"], b64decode(attributes["s"], validate=True), int(attributes["i"]))
    except (KeyError, ValueError) as error:
        raise SettingsError(f"the broker's SCRAM challenge is malformed: {server_first!r}", _IMPOSTOR) from error
    if not challenge.nonce.startswith(nonce) or challenge.nonce == nonce:
        raise SettingsError("the broker's SCRAM challenge is not a response to ours", _IMPOSTOR)
    if not _FEWEST_ITERATIONS <= challenge.iterations <= _MOST_ITERATIONS:
        raise SettingsError(
            f"the broker asks for {challenge.iterations} SCRAM iterations",
            f"Create the credentials again with at least {_FEWEST_ITERATIONS}, as Kafka does.",
        )
    return challenge
