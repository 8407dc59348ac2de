"""Classic groups: one member is the leader and assigns, and each rebalance begins a new generation."""
