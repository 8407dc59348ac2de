"""The network as a parameter: whoever can accept connections for a protocol may carry the broker.

The real one is the event loop's own sockets. A simulation passes a loop and a network of its own.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Address(NamedTuple):
    host: str
    port: int


class Listening(Protocol):
    @property
    def address(self) -> Address: ...

    async def start(self) -> None:
        """Begin to accept; until now the port was only held."""
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
        """Accept connections at `address` (port 0 means any free one); OSError if that cannot be."""
        ...


def try_address(host: str, port: int) -> None:
    """Take an address as a listener does, and give it back at once. OSError if that is not possible."""
    family, _, _, _, target = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind(target)


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
        # One socket, so that port 0 gives one port: of the families that the name has, the first.
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
