"""Classic groups: a leader among the members assigns, and the group moves from generation to generation."""
