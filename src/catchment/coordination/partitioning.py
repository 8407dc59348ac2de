"""Which partition of an internal topic holds the records of a group: Java's `String.hashCode`, as in Kafka."""

from operator import mul
from struct import unpack

_FACTOR = 31
_MODULUS = 1 << 32
_CHUNK = 256
# Clients choose the length of a key, so the table of powers has one size and a long key is hashed chunk by chunk.
_POWERS = tuple(pow(_FACTOR, exponent, _MODULUS) for exponent in reversed(range(_CHUNK)))
_CHUNK_FACTOR = pow(_FACTOR, _CHUNK, _MODULUS)


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a group id or a transactional id."""
    hashed = _hash_code(key)
    signed = hashed - _MODULUS if hashed >= _MODULUS // 2 else hashed
    # The smallest integer has no absolute value in Java; Kafka takes 0.
    return (0 if signed == -_MODULUS // 2 else abs(signed)) % partition_count


def _hash_code(key: str) -> int:
    """The hash as an unsigned number. A sum over a chunk of characters takes half the time of a loop over them."""
    units = _utf16_units(key)
    first = len(units) % _CHUNK
    hashed: int = sum(map(mul, units[:first], _POWERS[_CHUNK - first :]))
    for start in range(first, len(units), _CHUNK):
        hashed = hashed * _CHUNK_FACTOR + sum(map(mul, units[start : start + _CHUNK], _POWERS))
        hashed %= _MODULUS
    return hashed % _MODULUS


def _utf16_units(key: str) -> bytes | tuple[int, ...]:
    if key.isascii():
        return key.encode()
    encoded = key.encode("utf-16-be", "surrogatepass")
    return unpack(f">{len(encoded) // 2}H", encoded)
