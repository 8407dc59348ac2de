"""The options that source, sink and tables share, and the connection they describe."""
