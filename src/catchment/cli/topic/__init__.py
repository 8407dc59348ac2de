"""`catchment topic`."""
