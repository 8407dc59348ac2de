"""Connections to brokers: opened, authenticated, and chosen by what a request is for."""
