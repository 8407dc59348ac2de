"""Connections: from a socket's bytes to a handler and back."""
