"""Event sourcing: what happened to accounts is what is kept, and how they stand is computed from it."""
