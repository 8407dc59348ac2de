"""The Arrow client: blocking, over the wire alone, so that it works against Catchment and Apache Kafka alike.

Whole fetches become Arrow columns and columns become record batches, in compiled loops; records are never Python objects.
It is no second general client: there are no consumer groups with rebalances here, confluent-kafka has them.
"""
