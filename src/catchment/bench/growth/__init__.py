"""How costs grow: a request among more partitions and connections, opening and seeking in a larger log."""
