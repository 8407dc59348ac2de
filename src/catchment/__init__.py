"""Catchment: a Kafka-protocol streaming log in Python."""
