"""`catchment group`."""
