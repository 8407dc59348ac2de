"""Pipelines measured as people run them."""
