"""The log lines of many services, and features that are disabled when theirs go wrong."""
