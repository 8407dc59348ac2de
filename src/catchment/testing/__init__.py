"""The embedded broker and the pytest plugin."""
