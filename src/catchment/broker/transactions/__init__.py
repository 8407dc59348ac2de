"""Transactions on the partitions that this broker leads: verification, appends and markers."""
