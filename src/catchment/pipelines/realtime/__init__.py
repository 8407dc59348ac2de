"""Alerts in milliseconds: Spark's real-time mode with its own Kafka source and sink, for what that mode allows."""
