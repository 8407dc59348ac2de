"""Coordinators as replayed state machines."""
