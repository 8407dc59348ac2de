"""A schema registry over HTTP, as far as a reader needs it: a subject's version, a schema by its id, and what it refers to.

What a registry says of an id never changes, so it is asked once in each process. Failures that may pass are repeated until a
deadline; then the query fails, because nothing is known of its records. An id that the registry does not have is another
thing: the records that name it are wrong, not the registry.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from threading import Lock
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from catchment.client.errors import ClientError, SettingsError, TimedOut

_DEADLINE_SECONDS: Final = 30.0
_REQUEST_TIMEOUT_SECONDS: Final = 10.0
_FIRST_PAUSE_SECONDS: Final = 0.1
_LARGEST_ANSWER_BYTES: Final = 16 * 1024 * 1024
_MOST_REFERENCES: Final = 1000
_MOST_CACHED: Final = 1000
_UNKNOWN_SECONDS: Final = 60.0
_REPEATED: Final = frozenset((408, 429, 500, 502, 503, 504))


class RegistryError(ClientError):
    """A registry that could not be asked, or that answered with something else than a schema."""


class UnknownSchema(Exception):
    """A schema that the registry does not have."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema and, each before those that refer to it, the schemas that it refers to, by the name that they go by."""

    schema_id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Registry:
    """Where the registry is and how to prove who asks; the proof is in no text about it."""

    url: str
    authorization: str | None = field(default=None, repr=False)
    deadline_seconds: float = _DEADLINE_SECONDS

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Registry | None:
        """From the options `schemaRegistry`, `schemaRegistry.user`, `.password` and `.token`; None without the first."""
        known = {name.lower(): value for name, value in options.items()}
        address = known.get("schemaregistry")
        user, password = known.get("schemaregistry.user"), known.get("schemaregistry.password")
        token = known.get("schemaregistry.token")
        if address is None:
            return None
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(
                "the option schemaRegistry is not the address of a registry", "Set it to a URL with http or https."
            )
        if user is None and parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
        if (user is None) != (password is None) or (user is not None and token is not None):
            raise SettingsError(
                "the registry needs either schemaRegistry.user with schemaRegistry.password, or schemaRegistry.token",
                "Set both of the pair, or the token alone.",
            )
        authorization = f"Bearer {token}" if token is not None else None
        if user is not None:
            authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        host = parts.netloc.rpartition("@")[2]
        return cls(urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), authorization)

    def version(self, subject: str, version: str) -> RegisteredSchema:
        """A version of a subject, which is a number or `latest`."""
        return self._with_references(self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}"))

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id. Raises `UnknownSchema` if there is none, and remembers that for a while."""
        known = _seen.get((self, schema_id))
        if known is None:
            try:
                answer = self._get(f"/schemas/ids/{schema_id}")
                known = self._with_references({**answer, "id": schema_id})
            except UnknownSchema:
                known = time.monotonic() + _UNKNOWN_SECONDS
            _seen.put((self, schema_id), known)
        if isinstance(known, float):
            raise UnknownSchema(f"the registry has no schema {schema_id}")
        return known

    def _with_references(self, answer: dict[str, Any]) -> RegisteredSchema:
        found: dict[str, str] = {}
        self._follow(answer, found, set())
        schema_id, kind, text = answer.get("id"), answer.get("schemaType", "AVRO"), answer.get("schema")
        if not isinstance(schema_id, int) or not isinstance(text, str) or not isinstance(kind, str):
            raise RegistryError(
                f"the registry {self.url} answered without a schema", "Check that the URL is a registry's."
            )
        return RegisteredSchema(schema_id, kind, text, tuple(found.items()))

    def _follow(self, answer: dict[str, Any], found: dict[str, str], asked: set[tuple[str, int]]) -> None:
        for reference in answer.get("references") or ():
            place = (reference["subject"], reference["version"])
            if place in asked:
                continue
            asked.add(place)
            if len(asked) > _MOST_REFERENCES:
                raise RegistryError(f"a schema has more than {_MOST_REFERENCES} references", "Split it up.")
            try:
                target = self._get(f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}")
            except UnknownSchema:
                raise RegistryError(
                    f"a schema refers to version {place[1]} of {place[0]}, which the registry {self.url} does not have",
                    "Register it.",
                ) from None
            self._follow(target, found, asked)
            found[reference["name"]] = target["schema"]

    def _get(self, path: str) -> dict[str, Any]:
        deadline = time.monotonic() + self.deadline_seconds
        pause_seconds = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return self._ask(path)
            except urllib.error.HTTPError as error:
                with error:
                    reason = f"HTTP {error.code}"
                if error.code == 404:
                    raise UnknownSchema(path) from None
                if error.code in (401, 403):
                    raise SettingsError(
                        f"the registry {self.url} refuses access ({reason})",
                        "Check schemaRegistry.user and schemaRegistry.password, or schemaRegistry.token.",
                    ) from None
                if error.code not in _REPEATED:
                    raise RegistryError(
                        f"the registry {self.url} answered {reason} to {path}", "Check the URL."
                    ) from None
            except (OSError, HTTPException) as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
            if time.monotonic() + pause_seconds >= deadline:
                raise TimedOut(
                    f"the registry {self.url} gave no answer in {self.deadline_seconds:.0f} s ({reason})",
                    "Check that it is up and can be reached from the driver and from the executors.",
                )
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, 2.0)

    def _ask(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self.url + path, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
        if self.authorization is not None:
            # A header of this kind does not go along with a redirect to another host.
            request.add_unredirected_header("Authorization", self.authorization)
        with urllib.request.urlopen(request, timeout=_REQUEST_TIMEOUT_SECONDS) as response:
            content = response.read(_LARGEST_ANSWER_BYTES + 1)
        try:
            answer = json.loads(content) if len(content) <= _LARGEST_ANSWER_BYTES else None
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise RegistryError(
                f"{self.url} answered with something else than JSON", "Check that the URL is a registry's."
            )
        return answer


class _Seen:
    """What this process knows of ids: a schema, or until when an id counts as unknown. The oldest go when it is full."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[Registry, int], RegisteredSchema | float] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[Registry, int]) -> RegisteredSchema | float | None:
        with self._lock:
            entry = self._entries.get(key)
            if isinstance(entry, float) and entry < time.monotonic():
                return None
            return entry

    def put(self, key: tuple[Registry, int], entry: RegisteredSchema | float) -> None:
        with self._lock:
            self._entries[key] = entry
            while len(self._entries) > _MOST_CACHED:
                self._entries.popitem(last=False)


_seen = _Seen()
