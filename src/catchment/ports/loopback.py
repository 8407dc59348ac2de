"""A port for a server that is to be found, after it was killed too, where it was."""

from __future__ import annotations

import contextlib
import random
import socket
from typing import Final

_PORTS: Final = (15_000, 32_000)
_ATTEMPTS: Final = 1_000
_given_ports: set[int] = set()


def free_port() -> int:
    """A port of the loopback that nobody listens on just now, and that this process was not given before.

    It lies below those that the system gives to outgoing connections: one of them could take it before the server does.
    """
    for _ in range(_ATTEMPTS):
        port = random.SystemRandom().randrange(*_PORTS)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            if port not in _given_ports:
                _given_ports.add(port)
                return port
    raise OSError("no port of the loopback is free")
