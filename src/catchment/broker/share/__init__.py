"""Share partitions (KIP-932): members acquire records of one partition together, each locked until acknowledged."""
