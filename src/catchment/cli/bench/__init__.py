"""`catchment bench`."""
