"""The definitions of all settings, by subject."""
