"""The state that all brokers share: the metadata image, its stores and its controller."""
