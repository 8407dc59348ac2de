"""Alerts by mail, through an SMTP server: `smtp://[user:password@]host[:port][?from=address]`, or `smtps://`.

With `smtp://` the connection is encrypted where the server offers it (STARTTLS), and must be where there is a password.
The alert's id is in the `Message-ID`, by which most mail programs show a repeated message once.
"""

from __future__ import annotations

import json
import smtplib
import ssl
from email.message import EmailMessage
from typing import Final
from urllib.parse import parse_qs, unquote

from catchment.client.errors import SettingsError
from catchment.pipelines.alerts.telling import Listener, Notification, TellingFailed, TellingRefused
from catchment.pipelines.declaration.addresses import split_url

_TIMEOUT_S: Final = 10.0
_PORTS: Final = {"smtp": 587, "smtps": 465}
_PERMANENT: Final = 500
_SUBJECT_LENGTH: Final = 150
_ADVICE: Final = "Write it as smtp://user:password@host:587?from=alerts@example.org."


class Mail(Listener):
    """One address, and the server that takes mail for it."""

    def __init__(self, address: str, server: str | None) -> None:
        if server is None:
            raise SettingsError(f"there is no SMTP server to send mail to {address} with", f"Set smtp. {_ADVICE}")
        parts = split_url(server)
        if parts is None or parts.scheme not in _PORTS or not parts.hostname:
            raise SettingsError("the SMTP server is no address", _ADVICE)
        if "@" not in address or any(letter.isspace() for letter in address):
            raise SettingsError(f"{address!r} is no address for mail", "Write it as name@example.org.")
        self._address = address
        self._host = parts.hostname
        self._port = parts.port or _PORTS[parts.scheme]
        self._is_encrypted = parts.scheme == "smtps"
        self._user = unquote(parts.username or "")
        self._password = unquote(parts.password or "")
        self._sender = parse_qs(parts.query).get("from", [f"catchment@{self._host}"])[0]

    def tell(self, alert: Notification) -> None:
        letter = _letter(alert, self._sender, self._address)
        try:
            with self._connect() as server:
                if not self._is_encrypted:
                    self._encrypt(server)
                if self._user:
                    server.login(self._user, self._password)
                server.send_message(letter)
        except smtplib.SMTPRecipientsRefused as error:
            code, said = next(iter(error.recipients.values()))
            raise _failure(code, said) from error
        except smtplib.SMTPResponseException as error:
            raise _failure(error.smtp_code, error.smtp_error) from error
        except (OSError, smtplib.SMTPException) as error:
            raise TellingFailed(f"the SMTP server {self._host}:{self._port} cannot be used: {error}") from error

    def _connect(self) -> smtplib.SMTP:
        if self._is_encrypted:
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self._host, self._port, timeout=_TIMEOUT_S, context=context)
        return smtplib.SMTP(self._host, self._port, timeout=_TIMEOUT_S)

    def _encrypt(self, server: smtplib.SMTP) -> None:
        server.ehlo()
        if server.has_extn("starttls"):
            server.starttls(context=ssl.create_default_context())
        elif self._user:
            raise TellingRefused(
                f"the SMTP server {self._host}:{self._port} offers no encryption, and there is a password"
            )


def _letter(alert: Notification, sender: str, address: str) -> EmailMessage:
    letter = EmailMessage()
    letter["Subject"] = " ".join(alert.message.split())[:_SUBJECT_LENGTH]
    letter["From"] = sender
    letter["To"] = address
    letter["Message-ID"] = f"<{alert.id}@catchment.invalid>"
    shown = json.dumps(json.loads(alert.value), indent=2, ensure_ascii=False)
    # Not every server takes eight bits.
    letter.set_content(f"{alert.message}\n\n{shown}\n", cte="quoted-printable")
    return letter


def _failure(code: int, said: bytes | str) -> Exception:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    kind = TellingRefused if code >= _PERMANENT else TellingFailed
    return kind(f"the SMTP server answered {code}: {text}")
