"""Posts with tags, and the tags that everybody uses at once."""
