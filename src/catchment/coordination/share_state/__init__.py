"""How far share groups have come with each record: the state that survives a restart (KIP-932)."""
