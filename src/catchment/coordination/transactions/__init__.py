"""The transaction coordinator as a replayed state machine over `__transaction_state`."""
