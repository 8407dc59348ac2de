"""Which partition of an internal topic holds the records of a group: Java's `String.hashCode`, as in Kafka."""


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a group id or a transactional id."""
    units = key.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for index in range(0, len(units), 2):
        hashed = (31 * hashed + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    # The smallest integer has no absolute value in Java; Kafka takes 0.
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count
