"""Which partition of an internal topic holds the records of a group: Java's `String.hashCode`, as in Kafka."""

from functools import cache
from operator import mul
from struct import unpack

_FACTOR = 31
_MODULUS = 1 << 32


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a group id or a transactional id."""
    encoded = key.encode("utf-16-be", "surrogatepass")
    units = unpack(f">{len(encoded) // 2}H", encoded)
    # A loop over the letters would take many times as long, and strangers choose long names.
    hashed = sum(map(mul, reversed(units), _powers(len(units).bit_length()))) % _MODULUS
    signed = hashed - _MODULUS if hashed >= _MODULUS // 2 else hashed
    # The smallest integer has no absolute value in Java; Kafka takes 0.
    return (0 if signed == -_MODULUS // 2 else abs(signed)) % partition_count


@cache
def _powers(bits: int) -> tuple[int, ...]:
    """Powers of the factor, as many as numbers of so many bits can ask for."""
    return tuple([pow(_FACTOR, exponent, _MODULUS) for exponent in range(1 << bits)])
