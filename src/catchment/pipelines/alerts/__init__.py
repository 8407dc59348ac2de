"""Alerts: conditions on rows and on silent keys, written once to topics, and sent to people by webhook and mail."""
