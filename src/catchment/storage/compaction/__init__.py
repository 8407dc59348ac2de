"""Log compaction: choose what to clean, rewrite it beside the log, and swap it in."""
