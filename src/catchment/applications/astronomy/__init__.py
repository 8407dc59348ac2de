"""The brightness of many stars, and a telescope that turns to the one that flashes."""
