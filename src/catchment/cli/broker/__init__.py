"""Commands that run a broker on this machine, or check whether it can run."""
