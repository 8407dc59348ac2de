"""Consumer groups (KIP-848): the coordinator assigns, and members move step by step to their target assignment."""
