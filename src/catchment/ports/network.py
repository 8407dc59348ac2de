"""The network as a port: what accepts connections for the broker.

The real one uses the event loop's sockets. A simulation passes a loop and a network of its own.
"""

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

_LOOPBACK_PORTS: Final = (15_000, 32_000)
_ATTEMPTS: Final = 1_000
_given_ports: set[int] = set()


class Address(NamedTuple):
    host: str
    port: int


class Listening(Protocol):
    @property
    def address(self) -> Address: ...

    async def start(self) -> None:
        """Start to accept connections. Before this, the port is only bound."""
        ...

    async def close(self) -> None: ...


class Network(Protocol):
    async def listen(
        self,
        factory: Callable[[], asyncio.BufferedProtocol],
        address: Address,
        *,
        backlog: int,
        tls: ssl.SSLContext | None = None,
    ) -> Listening:
        """Accept connections at `address` (port 0 means any free one). Raises OSError if the address cannot be bound."""
        ...


def try_address(host: str, port: int) -> None:
    """Bind an address as a listener does, and release it at once. Raises OSError if it cannot be bound."""
    family, _, _, _, target = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind(target)


def free_port() -> int:
    """A free loopback port for a server that has to have the same port after a restart. It is never returned twice.

    It is below the range from which the system takes ports for outgoing connections, so no connection takes it before the server does.
    """
    for _ in range(_ATTEMPTS):
        port = random.SystemRandom().randrange(*_LOOPBACK_PORTS)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            if port not in _given_ports:
                _given_ports.add(port)
                return port
    raise OSError("no loopback port is free")


class _Server:
    def __init__(self, server: asyncio.Server, host: str) -> None:
        self._server = server
        self.address = Address(host, server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        await self._server.start_serving()

    async def close(self) -> None:
        self._server.close()


class SocketNetwork:
    async def listen(
        self,
        factory: Callable[[], asyncio.BufferedProtocol],
        address: Address,
        *,
        backlog: int,
        tls: ssl.SSLContext | None = None,
    ) -> Listening:
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # One socket for the first address family of the name, so that port 0 gives one port.
        family, _, _, _, target = infos[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and not address.host:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(target)
            server = await loop.create_server(factory, sock=listener, backlog=backlog, ssl=tls, start_serving=False)
        except BaseException:
            listener.close()
            raise
        return _Server(server, address.host)
