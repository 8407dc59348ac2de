"""How the addresses of stores and lakes begin, by which they are told apart before the libraries that reach them are loaded."""

from __future__ import annotations

from typing import Final

from catchment.client.errors import SettingsError
from catchment.pipelines.stores.errors import StoreRefused

SQLITE: Final = "sqlite:///"
POSTGRESQL: Final = ("postgresql://", "postgres://")
REDIS: Final = ("redis://", "rediss://", "unix://")
_LAKES: Final = ("abfs", "abfss", "file", "gcs", "gs", "hdfs", "s3", "s3a", "s3n", "viewfs")
"""The schemes that Arrow reaches, and Hadoop's names for them."""


def check_store_address(url: str) -> None:
    """Raise what is wrong with the beginning of a store's address."""
    if not url.startswith((SQLITE, *POSTGRESQL, *REDIS)) or url == SQLITE:
        # What follows the kind may be a password.
        raise StoreRefused(
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
