"""Share groups (KIP-932): members that work on the same partitions together, as in a queue."""
