"""`catchment produce` and `catchment consume`."""
