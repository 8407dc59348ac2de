"""Running a pipeline: the supervisor process, the driver process with Spark, and the status that they report."""
