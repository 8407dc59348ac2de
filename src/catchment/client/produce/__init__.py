"""Producing records: the choice of partitions, one queue a partition, and the sender."""
