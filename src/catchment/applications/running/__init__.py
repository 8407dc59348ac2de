"""What runs every application: its broker, its generator with a ledger, its actuator, and the board that checks them."""
