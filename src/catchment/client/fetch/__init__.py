"""Fetching records: sessions, one fetcher a broker, and the size of records."""
