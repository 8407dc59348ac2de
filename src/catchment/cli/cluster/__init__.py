"""Commands that look at a cluster as a whole: `cluster`, `quota` and `transaction`."""
