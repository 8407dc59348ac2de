"""Trades of a stock exchange, and what a desk wants to hear of at once."""
