"""The messages of SASL, compared with the examples of the RFCs, and with malicious servers."""

from __future__ import annotations

import pytest

from catchment.client.errors import SettingsError
from catchment.client.network.sasl import Exchange, authenticate
from catchment.client.settings import Credentials

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
CHALLENGE = f"r={SERVER_NONCE},s={SALT},i=4096"


def exchange(mechanism: str = "SCRAM-SHA-256", user: str = "user") -> Exchange:
    return authenticate(Credentials(mechanism=mechanism, username=user, password="pencil"), NONCE)


def test_plain_sends_name_and_password() -> None:
    messages = exchange("PLAIN")
    assert next(messages) == b"\0user\0pencil"
    with pytest.raises(StopIteration):
        messages.send(b"")


def test_scram_follows_the_example_of_rfc_7677() -> None:
    messages = exchange()
    assert next(messages) == f"n,,n=user,r={NONCE}".encode()
    final = messages.send(CHALLENGE.encode()).decode()
    assert final == f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    with pytest.raises(StopIteration):
        messages.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_name_is_escaped() -> None:
    assert next(exchange(user="a=b,c")) == f"n,,n=a=3Db=2Cc,r={NONCE}".encode()


def test_every_exchange_has_its_own_nonce() -> None:
    credentials = Credentials(mechanism="SCRAM-SHA-512", username="user", password="pencil")
    assert next(authenticate(credentials)) != next(authenticate(credentials))


@pytest.mark.parametrize(
    "signature", [b"v=AAAATRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b"e=other-error", b"", b"\xff"]
)
def test_a_server_that_does_not_know_the_password_is_detected(signature: bytes) -> None:
    messages = exchange()
    next(messages)
    messages.send(CHALLENGE.encode())
    with pytest.raises(SettingsError, match="failed to prove its identity"):
        messages.send(signature)


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        ("", "is malformed"),
        ("e=other-error", "is malformed"),
        (f"r={SERVER_NONCE},s=not base64,i=4096", "is malformed"),
        (f"r={SERVER_NONCE},s={SALT},i=many", "is malformed"),
        (f"r={NONCE},s={SALT},i=4096", "is not a response to ours"),
        (f"r=of-another,s={SALT},i=4096", "is not a response to ours"),
        (f"r={SERVER_NONCE},s={SALT},i=4095", "asks for 4095 SCRAM iterations"),
        (f"r={SERVER_NONCE},s={SALT},i=1000001", "asks for 1000001 SCRAM iterations"),
    ],
)
def test_an_invalid_challenge_is_rejected(challenge: str, message: str) -> None:
    messages = exchange()
    next(messages)
    with pytest.raises(SettingsError, match=message):
        messages.send(challenge.encode())
