"""The addresses of stores and lakes: how they begin, by which they are told apart before the libraries that reach them are loaded,
and how they are shown."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from catchment.client.errors import SettingsError

SQLITE: Final = "sqlite:///"
POSTGRESQL: Final = ("postgresql://", "postgres://")
REDIS: Final = ("redis://", "rediss://", "unix://")
_LAKES: Final = ("abfs", "abfss", "file", "gcs", "gs", "hdfs", "s3", "s3a", "s3n", "viewfs")
"""The schemes that Arrow reaches, and Hadoop's names for them."""
_AZURE: Final = ("abfs://", "abfss://")
_ADDRESS: Final = re.compile(r"([A-Za-z][\w+.-]*://)([^?]*)(?:\?(.*))?", re.DOTALL)
_SERVER: Final = re.compile(r"\[[^\]]*\](:\d*)?|[^:]*(:\d*)?(,[^:]*(:\d*)?)*")
_SECRET: Final = re.compile(r"pass|pwd|user|secret|token|key|credential|sig", re.IGNORECASE)


def check_store_address(url: str) -> None:
    """Raise what is wrong with the beginning of a store's address."""
    if not url.startswith((SQLITE, *POSTGRESQL, *REDIS)) or url == SQLITE:
        # What follows the kind may be a password.
        raise SettingsError(
            f"no store is known by an address that starts with {url.partition(':')[0]!r}",
            "Write sqlite:///file.db (sqlite:////folder/file.db from the root), postgresql://user@host/database or redis://host.",
        )


def check_lake_address(address: str) -> None:
    """Raise what is wrong with the beginning of a lake's address; without a scheme it is a folder."""
    scheme, mark, _ = address.partition("://")
    if mark and scheme.lower() not in _LAKES:
        raise SettingsError(
            f"no lake is known by an address that starts with {scheme!r}",
            "Write a folder, or s3://bucket/path, gs://…, abfss://…, hdfs://….",
        )


def split_url(url: str) -> SplitResult | None:
    """The parts of an address; None if it is none, for a bracket is open or the port is no number."""
    try:
        parts = urlsplit(url)
        return parts if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None


def without_credentials(address: str) -> str:
    """An address without users and passwords, before the host or among the options. What is in doubt is left out."""
    if (parts := _ADDRESS.fullmatch(address)) is None:
        return address
    scheme, place, query = parts[1], parts[2], parts[3] or ""
    if "@" in query:
        return f"{scheme}…"
    host = place.partition("/")[0]
    # A password may hold an @ or a slash that should have been escaped.
    is_torn = "@" not in host and not _SERVER.fullmatch(host)
    before_path = place if is_torn or scheme in (*POSTGRESQL, *REDIS) else host
    user, mark, _ = before_path.rpartition("@")
    place = place.removeprefix(user + mark)
    if scheme in _AZURE and (container := user.partition(":")[0]):
        place = f"{container}@{place}"
    options = "&".join(one for one in query.split("&") if one and not _SECRET.search(one.partition("=")[0]))
    return f"{scheme}{place}?{options}" if options else f"{scheme}{place}"
