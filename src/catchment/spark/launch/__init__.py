"""Starting Spark: Java, the session and its settings, and the Python processes that Spark starts."""
