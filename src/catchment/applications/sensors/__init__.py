"""Rooms, their temperature, and their air conditioning."""
