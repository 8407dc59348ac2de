"""The command `catchment`."""
