"""Kafka's settings: their definitions by subject, how their text is parsed, and their reference page."""
