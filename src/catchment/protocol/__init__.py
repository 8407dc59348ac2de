"""The Kafka wire protocol without I/O."""
