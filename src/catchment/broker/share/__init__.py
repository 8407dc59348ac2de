"""Share partitions (KIP-932): records of a partition handed out to many members at once, each locked until acknowledged."""
