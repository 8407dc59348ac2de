"""What has passed through the broker, as plain counters: the hot path adds, others read."""


class Traffic:
    __slots__ = ("bytes_in", "bytes_out", "connections", "produce_batches", "requests", "unsent_bytes")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.produce_batches = 0
        self.connections = 0
        self.unsent_bytes = 0
        """Answers that slow clients have not taken yet."""
        self.requests: dict[int, int] = {}
        """By API key."""

    def produced(self, size: int) -> None:
        self.bytes_in += size
        self.produce_batches += 1

    def fetched(self, size: int) -> None:
        self.bytes_out += size

    def requested(self, api_key: int) -> None:
        self.requests[api_key] = self.requests.get(api_key, 0) + 1
