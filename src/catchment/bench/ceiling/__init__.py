"""The ceiling: a server that parses requests and responds but stores nothing, which shows the limit of the client itself."""
