"""Measurements of many hosts, and what to do about one that is not heard of."""
