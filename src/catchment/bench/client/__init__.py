"""The load generator: librdkafka in a process of its own, the same for every server."""
