"""Rows and records: how topics, sources and boundaries encode them."""
