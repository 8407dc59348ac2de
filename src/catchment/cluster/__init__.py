"""What all brokers agree on: the metadata image, its stores and its controller."""
