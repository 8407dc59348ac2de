"""The sink of the format "catchment": rows into topics, exactly once."""
