"""The producers of a partition: their sequence numbers and transactions, in memory and in snapshots."""
