"""Pipelines tried on rows that a test gives, with Spark's own streaming but without a broker. The public name is `testing`."""
