"""Microservices: requests in one topic, replies in another, and orders when the stock runs out."""
