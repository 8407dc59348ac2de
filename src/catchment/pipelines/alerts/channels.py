"""How an alert is sent to people and programs outside: by webhook and by mail.

A webhook gets the alert's JSON by POST, with its id as `Idempotency-Key`. Any answer of the 200s is taken for received. Proxies are those
of the environment (`https_proxy`, `no_proxy`). A redirect is not followed: it would turn the POST into a GET without the alert.

Mail goes through an SMTP server: `smtp://[user:password@]host[:port][?from=address]`, or `smtps://`. With `smtp://` the connection is
encrypted where the server offers it (STARTTLS), and must be where there is a password. The alert's id is in the `Message-ID`, by which most
mail programs show a repeated message once.

Gaps
    The time-out is for each step of the HTTP exchange, not for all of it: a server that sends one byte at a time delays its own alerts.
"""

from __future__ import annotations

import json
import smtplib
import ssl
from abc import ABC, abstractmethod
from email.message import EmailMessage, Message
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, unquote
from urllib.request import HTTPRedirectHandler, Request, build_opener

from catchment.client.errors import SettingsError
from catchment.pipelines.declaration.addresses import split_url


class Notification(NamedTuple):
    """An alert as a channel sends it."""

    id: str
    message: str
    value: bytes
    """The whole alert as JSON."""


class DeliveryFailed(Exception):
    """The alert was not delivered, but another attempt may succeed."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """How long the receiver asks us to wait."""


class DeliveryRejected(Exception):
    """The alert was not delivered, and another attempt would not help."""


class Channel(ABC):
    """A webhook or a mail address. Delivery is at least once: the alert's id is in what is sent."""

    @abstractmethod
    def send(self, alert: Notification) -> None:
        """Return when the receiver has accepted it; raise DeliveryFailed or DeliveryRejected."""


_HTTP_TIMEOUT_S: Final = 10.0
_PASSING: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_SHOWN_BYTES: Final = 200


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        return None


class WebhookChannel(Channel):
    """One address. It may hold a secret, so it is never shown."""

    def __init__(self, url: str) -> None:
        parts = split_url(url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError("a webhook is no address", "Write it as https://host/path.")
        self._url = url
        self._opener = build_opener(_NoRedirects)

    def send(self, alert: Notification) -> None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": alert.id, "User-Agent": "catchment"}
        request = Request(self._url, alert.value, headers, method="POST")
        try:
            with self._opener.open(request, timeout=_HTTP_TIMEOUT_S):
                return
        except HTTPError as error:
            with error:
                raise _http_failure(error) from error
        except URLError as error:
            raise DeliveryFailed(f"the webhook cannot be reached: {error.reason}") from error
        except (OSError, HTTPException) as error:
            raise DeliveryFailed(f"the webhook gave no answer: {type(error).__name__} {error}") from error


def _http_failure(error: HTTPError) -> Exception:
    said = f"the webhook answered {error.code} {error.reason}: {_beginning(error)}".rstrip(": ")
    if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in _PASSING:
        return DeliveryFailed(said, _retry_after_s(error.headers))
    if HTTPStatus.MULTIPLE_CHOICES <= error.code < HTTPStatus.BAD_REQUEST:
        return DeliveryRejected(f"{said} (redirects are not followed: name the address that it points to)")
    return DeliveryRejected(said)


def _beginning(error: HTTPError) -> str:
    try:
        return error.read(_SHOWN_BYTES).decode(errors="replace").strip()
    except (OSError, HTTPException):
        return ""


def _retry_after_s(headers: Message) -> float | None:
    text = headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else None


_SMTP_TIMEOUT_S: Final = 10.0
_PORTS: Final = {"smtp": 587, "smtps": 465}
_PERMANENT: Final = 500
_SUBJECT_LENGTH: Final = 150
_ADVICE: Final = "Write it as smtp://user:password@host:587?from=alerts@example.org."


class MailChannel(Channel):
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

    def send(self, alert: Notification) -> None:
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
            raise _smtp_failure(code, said) from error
        except smtplib.SMTPResponseException as error:
            raise _smtp_failure(error.smtp_code, error.smtp_error) from error
        except (OSError, smtplib.SMTPException) as error:
            raise DeliveryFailed(f"the SMTP server {self._host}:{self._port} cannot be used: {error}") from error

    def _connect(self) -> smtplib.SMTP:
        if self._is_encrypted:
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self._host, self._port, timeout=_SMTP_TIMEOUT_S, context=context)
        return smtplib.SMTP(self._host, self._port, timeout=_SMTP_TIMEOUT_S)

    def _encrypt(self, server: smtplib.SMTP) -> None:
        server.ehlo()
        if server.has_extn("starttls"):
            server.starttls(context=ssl.create_default_context())
        elif self._user:
            raise DeliveryRejected(
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


def _smtp_failure(code: int, said: bytes | str) -> Exception:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    kind = DeliveryRejected if code >= _PERMANENT else DeliveryFailed
    return kind(f"the SMTP server answered {code}: {text}")
