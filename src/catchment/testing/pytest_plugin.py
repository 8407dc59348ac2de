"""Pytest fixtures that bring a real broker to any test."""
