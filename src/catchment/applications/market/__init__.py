"""Trades of a stock exchange, and alerts for a trading desk."""
