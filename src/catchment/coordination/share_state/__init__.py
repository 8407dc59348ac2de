"""The share coordinator as a replayed state machine over `__share_group_state`: delivery states of records (KIP-932)."""
