"""Applications to look at, run and begin from: each a pipeline, a generator of its events, and an actuator that responds."""
