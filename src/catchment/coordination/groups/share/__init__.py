"""Share groups (KIP-932): members read the same partitions together, as from a queue."""
