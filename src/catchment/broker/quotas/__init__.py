"""Bounds on what single users and clients may take of the broker."""
