"""One file an API."""
