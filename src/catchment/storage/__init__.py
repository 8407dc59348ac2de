"""One partition on one disk."""
