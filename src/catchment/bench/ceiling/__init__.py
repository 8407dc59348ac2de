"""The ceiling: a server that parses and answers but stores nothing, so that the limit of the client itself shows."""
