"""Our Spark source and sink beside Spark's own Kafka connector: one broker, one session, the same topics."""
