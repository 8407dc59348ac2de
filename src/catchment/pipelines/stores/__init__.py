"""Real-time stores: a table of the newest results, in SQLite, PostgreSQL or Redis, each batch in it once."""
