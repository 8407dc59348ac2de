"""What can be found wrong with a pipeline before its queries run."""
