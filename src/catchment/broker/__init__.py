"""Listeners, connections, routing, and one handler an API."""
