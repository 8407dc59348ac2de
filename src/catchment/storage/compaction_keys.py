"""The last offset of each key in the dirty part of a log, in bounded memory.

Keys shorter than a digest stand for themselves, longer ones for their 128-bit digest, as in Kafka: two keys that share one
would have to be made on purpose.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

_DIGEST_BYTES: Final = 16
_BYTES_A_KEY: Final = 192
"""What an entry costs: the key's bytes object, the offset, and their share of a dictionary that has just grown."""
_FEWEST_KEYS: Final = 1024


def keys_in(buffer_bytes: int) -> int:
    """How many keys a buffer of `log.cleaner.dedupe.buffer.size` bytes holds."""
    return max(_FEWEST_KEYS, buffer_bytes // _BYTES_A_KEY)


class LastOffsets:
    def __init__(self, most_keys: int) -> None:
        self._most_keys = most_keys
        self._offsets: dict[bytes, int] = {}
        self.end_offset = 0
        """All records below this offset are known."""

    @property
    def is_full(self) -> bool:
        """Whether the next batch must wait for the next cleaning. The first one never does, or there would be no progress."""
        return len(self._offsets) >= self._most_keys

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[_short(key)] = offset

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether a later record has the same key."""
        return self._offsets.get(_short(key), -1) > offset


def _short(key: bytes) -> bytes:
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()
