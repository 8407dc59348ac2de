"""The servers that a benchmark compares: how each is fetched, started, watched and stopped."""
