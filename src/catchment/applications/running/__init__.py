"""What every application runs on: its broker, its generator with a ledger, its actuator, and the board that checks them."""
