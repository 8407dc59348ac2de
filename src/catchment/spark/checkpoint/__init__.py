"""A streaming query's checkpoint: its files, and what Spark recorded in them."""
