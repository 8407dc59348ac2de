"""Microservices: one asks by a topic and is answered by another, and who answers keeps an eye on the shelf."""
