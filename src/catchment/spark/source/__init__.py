"""The source of the format "catchment": topics as rows, in batches and in streams."""
