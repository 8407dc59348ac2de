"""Commands of pipelines on Spark, and of what they store."""
