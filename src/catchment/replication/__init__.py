"""The partitions that this broker leads: high watermarks, group commit, waiting requests, and maintenance."""
