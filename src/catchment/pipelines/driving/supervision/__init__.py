"""The process that keeps a pipeline running, and the files by which others find it."""
