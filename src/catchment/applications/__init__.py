"""Applications to read, run and start from: each a pipeline, a generator of its events, and an actuator that responds."""
