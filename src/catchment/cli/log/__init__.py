"""`catchment log`."""
