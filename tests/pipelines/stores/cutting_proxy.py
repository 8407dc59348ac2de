"""A server in between that cuts a connection at a chosen message, before it has passed or after its answer has come.

In the second case the server has done what was asked, and the client cannot know: the case that batch numbers are for.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

_CHUNK = 1 << 16


class CuttingProxy:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._remaining: int | None = None
        self._is_before = True
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A thread that waits in accept is not woken by close alone.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def arm(self, count: int, when: str) -> None:
        """Cut at the count-th message from now on, `before` or `after` it has reached the server."""
        with self._lock:
            self._remaining = count
            self._is_before = when == "before"

    @property
    def has_cut(self) -> bool:
        """Whether it happened."""
        with self._lock:
            return self._remaining is None

    def _is_last(self) -> bool:
        with self._lock:
            if self._remaining is None:
                return False
            self._remaining -= 1
            if self._remaining:
                return False
            self._remaining = None
            return True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self._target_port)) as server:
            is_cut = threading.Event()
            answers = threading.Thread(target=self._answer, args=(server, client, is_cut), daemon=True)
            answers.start()
            while message := client.recv(_CHUNK):
                is_last = self._is_last()
                if is_last:
                    is_cut.set()
                    if self._is_before:
                        break
                server.sendall(message)
                if is_last:
                    # The other thread swallows the answer, and ends.
                    answers.join(timeout=10)
                    break
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _answer(server: socket.socket, client: socket.socket, is_cut: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while (answer := server.recv(_CHUNK)) and not is_cut.is_set():
                client.sendall(answer)
