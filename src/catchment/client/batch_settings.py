"""What batches are made with, for those who only pass it on."""

from __future__ import annotations

from typing import Final, Literal

DEFAULT_BATCH_BYTES: Final = 1_000_000
"""A little less than brokers accept unless told otherwise."""

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
