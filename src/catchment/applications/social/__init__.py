"""Posts with tags, and tags that many authors use at once."""
