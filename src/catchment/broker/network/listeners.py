"""Where clients come in: one listener for each entry of `listeners`, and the bounds on connections that all share."""

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from catchment.broker.network.buffers import BufferPool
from catchment.broker.network.connection import Connection, ConnectionLimits
from catchment.broker.network.routing import Router
from catchment.ports.network import Address, Listening, Network
from catchment.settings import listeners as listener_settings

if TYPE_CHECKING:
    from catchment.broker.context import Services

_logger = logging.getLogger(__name__)

_IDLE_CHECKS_A_PERIOD = 4


class Listener:
    """One address that is listened on. Its connections know it, and through it the router and the bounds."""

    def __init__(self, name: str, connections: "Connections", router: Router) -> None:
        self.name = name
        self.router = router
        self._connections = connections

    def connected(self, connection: Connection) -> bool:
        """Whether there is room for the connection."""
        return self._connections.add(connection)

    def disconnected(self, connection: Connection) -> None:
        self._connections.remove(connection)

    def refusal_pause_ms(self, host: str) -> int:
        """How long to wait before closing a connection from a host that connects too often; 0 if it does not."""
        quotas = self._connections.services.quotas
        return quotas.connect(host) if quotas.is_active else 0

    def muted_changed(self, difference: int) -> None:
        self._connections.services.quotas.muted_connections += difference

    def now_s(self) -> float:
        return self._connections.now_s()

    def unsent_changed(self, difference: int) -> None:
        self._connections.services.traffic.unsent_bytes += difference


class Connections:
    """All connections of the broker, of every listener."""

    def __init__(self, services: "Services") -> None:
        self.services = services
        self.now_s = services.clock.monotonic_s
        self._open: dict[Connection, None] = {}
        self._by_host: Counter[str] = Counter()
        self._is_closing = False

    def add(self, connection: Connection) -> bool:
        if self._is_closing:
            return False
        settings = self.services.settings
        host = connection.peer_host
        limit = settings.connection_limits_per_address.get(host, settings.integer("max.connections.per.ip"))
        if len(self._open) >= settings.integer("max.connections") or self._by_host[host] >= limit:
            _logger.warning(
                "refused a connection from %s: %d are open, %d from there", host, len(self._open), self._by_host[host]
            )
            return False
        self._open[connection] = None
        self._by_host[host] += 1
        self.services.traffic.connections = len(self._open)
        connection.last_active_s = self.now_s()
        return True

    def remove(self, connection: Connection) -> None:
        if connection in self._open:
            del self._open[connection]
            self._by_host[connection.peer_host] -= 1
            if not self._by_host[connection.peer_host]:
                del self._by_host[connection.peer_host]
            self.services.traffic.connections = len(self._open)

    async def close_idle_for_ever(self) -> None:
        """Close connections on which nothing has come for `connections.max.idle.ms`, unless they wait for us.

        A client that has closed its side may be gone, which only an answer would tell: it is not waited for longer.
        """
        while True:
            idle_ms = self.services.settings.integer("connections.max.idle.ms")
            # A negative limit means none; it may change while the broker runs, so look at it again.
            await asyncio.sleep(max(0.05, (idle_ms if idle_ms >= 0 else 60_000) / 1000 / _IDLE_CHECKS_A_PERIOD))
            if idle_ms < 0:
                continue
            oldest_s = self.now_s() - idle_ms / 1000
            for connection in list(self._open):
                waits = connection.has_requests_waiting and not connection.asks_no_more
                if connection.last_active_s < oldest_s and not waits:
                    connection.abort()

    def abort_all(self) -> None:
        """Close all connections, and each that was accepted already but comes only now."""
        self._is_closing = True
        for connection in list(self._open):
            connection.abort()


async def bind(
    network: Network,
    configured: listener_settings.Listener,
    connections: Connections,
    router: Router,
    pool: BufferPool,
) -> Listening:
    """Take the address; the caller starts to accept once the broker is ready."""
    settings = connections.services.settings
    listener = Listener(configured.name, connections, router)
    limits = ConnectionLimits(
        max_frame_bytes=settings.integer("socket.request.max.bytes"),
        max_waiting_answers=settings.integer("queued.max.requests"),
        send_buffer_bytes=settings.integer("socket.send.buffer.bytes"),
        receive_buffer_bytes=settings.integer("socket.receive.buffer.bytes"),
    )
    return await network.listen(
        lambda: Connection(listener, pool, limits),
        Address(configured.host, configured.port),
        backlog=settings.integer("socket.listen.backlog.size"),
    )
