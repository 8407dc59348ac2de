"""Rows of any Spark schema as Avro, between the stages of a pipeline."""
