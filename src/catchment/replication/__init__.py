"""A partition's role, its high watermark, and the requests that wait for it."""
