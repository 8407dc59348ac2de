"""Listeners: one for each entry of `listeners`, and the connection limits that they share."""

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

_IDLE_CHECKS_PER_PERIOD = 4


class Listener:
    """One bound address. Its connections reach the router and the limits through it."""

    def __init__(self, name: str, connections: "Connections", router: Router) -> None:
        self.name = name
        self.router = router
        self._connections = connections

    def connected(self, connection: Connection) -> bool:
        """Register a connection; False if it exceeds a limit."""
        return self._connections.add(connection)

    def disconnected(self, connection: Connection) -> None:
        self._connections.remove(connection)

    def rejection_delay_ms(self, host: str) -> int:
        """How long to wait before closing a connection from a host over its connection rate; 0 if it is within."""
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
                "rejected a connection from %s: %d connections are open, %d from this host",
                host,
                len(self._open),
                self._by_host[host],
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

    async def close_idle_connections(self) -> None:
        """Until cancelled, close connections that received nothing for `connections.max.idle.ms` and have no pending request.

        A client that has closed its side may be gone, and only a response would show it: it gets no longer time.
        """
        while True:
            idle_ms = self.services.settings.integer("connections.max.idle.ms")
            # A negative limit means none. The setting may change while the broker runs, so it is read again.
            await asyncio.sleep(max(0.05, (idle_ms if idle_ms >= 0 else 60_000) / 1000 / _IDLE_CHECKS_PER_PERIOD))
            if idle_ms < 0:
                continue
            oldest_s = self.now_s() - idle_ms / 1000
            for connection in list(self._open):
                waits = connection.has_pending_requests and not connection.is_half_closed
                if connection.last_active_s < oldest_s and not waits:
                    connection.abort()

    def abort_all(self) -> None:
        """Close all connections, and each accepted one that is registered from now on."""
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
    """Bind the address; the caller starts to accept once the broker is ready."""
    settings = connections.services.settings
    listener = Listener(configured.name, connections, router)
    limits = ConnectionLimits(
        max_frame_bytes=settings.integer("socket.request.max.bytes"),
        max_pending_responses=settings.integer("queued.max.requests"),
        send_buffer_bytes=settings.integer("socket.send.buffer.bytes"),
        receive_buffer_bytes=settings.integer("socket.receive.buffer.bytes"),
    )
    return await network.listen(
        lambda: Connection(listener, pool, limits),
        Address(configured.host, configured.port),
        backlog=settings.integer("socket.listen.backlog.size"),
    )
