"""What an author writes, in Python or in YAML, and the checked specification that is made of it."""
