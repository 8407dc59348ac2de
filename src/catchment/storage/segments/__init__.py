"""The segments of a log: batches in files, their indexes, and how offsets and timestamps are found in them."""
