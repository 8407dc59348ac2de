"""What every command's `--help` shares: its style, its examples, and the reference page."""
