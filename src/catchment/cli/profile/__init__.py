"""`catchment profile`, and the profiles that it saves."""
