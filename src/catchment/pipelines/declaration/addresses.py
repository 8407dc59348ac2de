"""The addresses of brokers, stores and lakes, and how they are shown.

Environment variables (`${NAME}`) are put in when the pipeline runs, so that no file, plan or status has them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from catchment.client.errors import SettingsError
from catchment.pipelines.errors import Path

if TYPE_CHECKING:
    from catchment.pipelines.declaration.specification import PipelineSpecification

SQLITE: Final = "sqlite:///"
POSTGRESQL: Final = ("postgresql://", "postgres://")
REDIS: Final = ("redis://", "rediss://", "unix://")
_LAKES: Final = ("abfs", "abfss", "file", "gcs", "gs", "hdfs", "s3", "s3a", "s3n", "viewfs")
"""The schemes that Arrow reaches, and Hadoop's names for them."""
_AZURE: Final = ("abfs://", "abfss://")
_ADDRESS: Final = re.compile(r"([A-Za-z][\w+.-]*://)([^?]*)(?:\?(.*))?", re.DOTALL)
_SERVER: Final = re.compile(r"\[[^\]]*\](:\d*)?|[^:]*(:\d*)?(,[^:]*(:\d*)?)*")
_SECRET: Final = re.compile(r"pass|pwd|user|secret|token|key|credential|sig", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SERVERS_VARIABLE: Final = "CATCHMENT_BOOTSTRAP_SERVERS"
_DEFAULT: Final = "127.0.0.1:9092"
LARGEST_RECORD_BYTES: Final = 16 * 1024 * 1024
"""For every topic that a pipeline makes and everything that it writes: a record may grow on its way between queries. A
quarantined record has headers of ours, an alert contains its row, and JSON takes more room than Avro."""


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
    """The parts of an address; None if it is invalid: a bracket is open or the port is not a number."""
    try:
        parts = urlsplit(url)
        return parts if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None


def without_credentials(address: str) -> str:
    """An address without users and passwords, before the host or among the options. A doubtful part is left out."""
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


def with_variables(text: str) -> str:
    """A text with its variables put in; SettingsError names one that is not set."""
    return _VARIABLE.sub(lambda one: _value(one[1]), text)


def expanded(address: str, folder: FilePath) -> str:
    """An address with its variables put in, and a relative path in it made absolute."""
    text = with_variables(address)
    if text.startswith(SQLITE) and not text.startswith(f"{SQLITE}/"):
        return f"{SQLITE}{(folder / text.removeprefix(SQLITE)).resolve()}"
    if "://" not in text and not text.startswith("/"):
        return str((folder / text).resolve())
    return text


def with_known_variables(text: str) -> str:
    """A text with those of its variables put in that are set, for checks before a run."""
    return _VARIABLE.sub(lambda one: os.environ.get(one[1], one[0]), text)


def has_variables(text: str) -> bool:
    return _VARIABLE.search(text) is not None


def missing_variables(tree: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Variables that declarations name and that are not set, with the keys that lead there."""
    if isinstance(tree, str):
        for name in dict.fromkeys(_VARIABLE.findall(tree)):
            if name not in os.environ:
                yield path, _unset(name)
    elif isinstance(tree, dict):
        for key, one in tree.items():
            yield from missing_variables(one, (*path, key))
    elif isinstance(tree, list | tuple):
        for number, one in enumerate(tree):
            yield from missing_variables(one, (*path, number))


def _value(name: str) -> str:
    if name not in os.environ:
        raise SettingsError(_unset(name))
    return os.environ[name]


def _unset(name: str) -> str:
    return f"the environment variable {name} is not set"


def brokers(specification: PipelineSpecification, given: str | None = None) -> str:
    """The addresses for clients: those of the command, of the file, of the environment, or the broker on this machine."""
    declared = with_variables(specification.servers) if specification.servers else None
    return given or declared or os.environ.get(_SERVERS_VARIABLE) or _DEFAULT


def broker_settings(specification: PipelineSpecification) -> dict[str, str]:
    """The settings of the connection to the brokers."""
    return {name: with_variables(one) for name, one in specification.kafka.items()}
