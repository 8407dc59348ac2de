"""A pipeline's queries, built and run on Spark."""
