"""Who may write to a table, a lake or a topic: everything that a pipeline writes to records its owner."""
