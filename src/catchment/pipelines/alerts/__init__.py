"""Alerts: conditions on rows and silences of keys, answered once on topics, and told to people by webhook and mail."""
