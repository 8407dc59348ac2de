"""The format "catchment-table": a compacted topic as a table."""
