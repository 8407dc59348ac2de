"""What a run reports of itself: for the run file, HTTP, Prometheus and the terminal."""
