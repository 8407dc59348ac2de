"""Receive buffers: a small one for each connection, and large ones borrowed while large frames arrive.

A thousand idle connections must not hold megabytes each, and a busy one must not allocate fresh pages for each frame.
So a connection reads into a small buffer of its own. A frame that does not fit borrows a larger one, which grows only as
bytes arrive: the length in a frame is unverified input.
"""

SMALL_BYTES = 32 * 1024
LARGE_BYTES = 2 * 1024 * 1024
_KEPT_BUFFERS = 16


class BufferPool:
    """Large buffers for reuse. At most a few are kept; the rest go back to the allocator."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def borrow(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes."""
        if size <= LARGE_BYTES:
            return self._free.pop() if self._free else bytearray(LARGE_BYTES)
        return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        if len(buffer) == LARGE_BYTES and len(self._free) < _KEPT_BUFFERS:
            self._free.append(buffer)


class ReceiveBuffer:
    """The received bytes that are not consumed yet: `data[start:end]` of a buffer that changes size as needed."""

    __slots__ = ("_buffer", "_pool", "_small", "_view", "end", "start")

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._small = bytearray(SMALL_BYTES)
        self._buffer = self._small
        self._view = memoryview(self._buffer)
        self.start = 0
        self.end = 0

    @property
    def available(self) -> int:
        return self.end - self.start

    def view(self, offset: int, size: int) -> memoryview:
        """Received bytes, `offset` counted from the first unconsumed one. The view is invalid after the next `space`."""
        position = self.start + offset
        return self._view[position : position + size]

    def space(self) -> memoryview:
        """The free space for the next bytes; never empty."""
        if self.end == len(self._buffer):
            self.make_room(self.available + 1)
        return self._view[self.end :]

    def received(self, size: int) -> None:
        self.end += size

    def use(self, size: int) -> None:
        self.start += size
        if self.start == self.end:
            self.start = self.end = 0
            if self._buffer is not self._small:
                self._pool.give_back(self._replace(self._small))

    def make_room(self, size: int) -> None:
        """Make room for a frame of `size` bytes, but at most for twice the bytes that have arrived."""
        wanted = min(size, max(LARGE_BYTES, 2 * self.available))
        if self.start + wanted <= len(self._buffer):
            return
        available = self.available
        if wanted <= len(self._buffer):
            self._buffer[:available] = self._view[self.start : self.end]
        elif self._buffer is self._small and available < SMALL_BYTES // 2:
            # Only the length has arrived: a thousand clients that announce a large frame must not get a large buffer each.
            return
        else:
            larger = self._pool.borrow(wanted)
            larger[:available] = self._view[self.start : self.end]
            self._pool.give_back(self._replace(larger))
        self.start, self.end = 0, available

    def _replace(self, buffer: bytearray) -> bytearray:
        old, self._buffer = self._buffer, buffer
        self._view = memoryview(buffer)
        return old
