"""Groups of the consumer protocol (KIP-848): the coordinator assigns, and members move step by step to what it wants."""
