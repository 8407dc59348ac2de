"""Alerts to a webhook: the alert's JSON by POST, with its id as `Idempotency-Key`.

Any answer of the 200s is taken for received. Proxies are those of the environment (`https_proxy`, `no_proxy`). A redirect is
not followed: it would turn the POST into a GET without the alert.

Gaps
    The time-out is for each step of the exchange, not for all of it: a server that sends one byte at a time holds up the
    alerts for itself.
"""

from __future__ import annotations

from email.message import Message
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from catchment.client.errors import SettingsError
from catchment.pipelines.alerts.telling import Listener, Notification, TellingFailed, TellingRefused
from catchment.pipelines.declaration.addresses import split_url

_TIMEOUT_S: Final = 10.0
_PASSING: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_SHOWN_BYTES: Final = 200


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        return None


class Webhook(Listener):
    """One address. It may hold a secret, so it is never shown."""

    def __init__(self, url: str) -> None:
        parts = split_url(url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError("a webhook is no address", "Write it as https://host/path.")
        self._url = url
        self._opener = build_opener(_NoRedirects)

    def tell(self, alert: Notification) -> None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": alert.id, "User-Agent": "catchment"}
        request = Request(self._url, alert.value, headers, method="POST")
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S):
                return
        except HTTPError as error:
            with error:
                raise _failure(error) from error
        except URLError as error:
            raise TellingFailed(f"the webhook cannot be reached: {error.reason}") from error
        except (OSError, HTTPException) as error:
            raise TellingFailed(f"the webhook gave no answer: {type(error).__name__} {error}") from error


def _failure(error: HTTPError) -> Exception:
    said = f"the webhook answered {error.code} {error.reason}: {_beginning(error)}".rstrip(": ")
    if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in _PASSING:
        return TellingFailed(said, _retry_after_s(error.headers))
    if HTTPStatus.MULTIPLE_CHOICES <= error.code < HTTPStatus.BAD_REQUEST:
        return TellingRefused(f"{said} (redirects are not followed: name the address that it points to)")
    return TellingRefused(said)


def _beginning(error: HTTPError) -> str:
    try:
        return error.read(_SHOWN_BYTES).decode(errors="replace").strip()
    except (OSError, HTTPException):
        return ""


def _retry_after_s(headers: Message) -> float | None:
    text = headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else None
