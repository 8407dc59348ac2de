"""What a handler may use: the broker's services, the request's header and its connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kio.static.primitive import TZAware, i32Timedelta

from catchment.broker.metrics import Traffic
from catchment.cluster.metadata import MetadataImage
from catchment.ports.workers import ThreadWorkers
from catchment.protocol.headers import RequestHeader

if TYPE_CHECKING:
    from catchment.broker.coordinators.groups import GroupCoordinator
    from catchment.broker.coordinators.share_groups import ShareGroupCoordinator
    from catchment.broker.coordinators.share_state import ShareStateCoordinator
    from catchment.broker.coordinators.transactions import TransactionCoordinator
    from catchment.broker.fetch_sessions import FetchSessions
    from catchment.broker.network.connection import Connection
    from catchment.broker.quotas.enforcement import Quotas
    from catchment.broker.quotas.meter import RequestMeter
    from catchment.broker.share.manager import SharePartitionManager
    from catchment.cluster.controller import Controller
    from catchment.ports.clock import Clock
    from catchment.ports.disk import Disk
    from catchment.replication.replicas import Replicas
    from catchment.settings.broker import BrokerSettings

MAX_WAIT_MS: Final = 30_000
"""How long a request may wait for data or for other clients, whatever it asks for. Kafka has no such bound. A client that gets an
empty answer early sends its request again, and writing the answer reveals a client that has vanished."""

NO_THROTTLE: Final = i32Timedelta.parse(timedelta(0))
NO_TIME: Final = cast("TZAware", datetime.fromtimestamp(0, UTC) - timedelta(milliseconds=1))
"""-1 on the wire. kio's type for times does not allow it, its writers do."""

_MIN_FETCH_BYTES = 1024 * 1024
_MAX_RESPONSE_BYTES = 4 * 1024 * 1024
"""A client may ask for more, but what is read in one go should still be in the processor's cache when it is sent: a consumer of 16
partitions gets 1.4 times as much a second in responses of this size as in responses of 16 MB."""


@dataclass(slots=True)
class Services:
    """The parts of a running broker."""

    settings: BrokerSettings
    controller: Controller
    replicas: Replicas
    clock: Clock
    disk: Disk
    fetch_sessions: FetchSessions
    groups: GroupCoordinator
    share_state: ShareStateCoordinator
    share_groups: ShareGroupCoordinator = field(kw_only=True)
    share_partitions: SharePartitionManager = field(kw_only=True)
    transactions: TransactionCoordinator = field(kw_only=True)
    quotas: Quotas = field(kw_only=True)
    traffic: Traffic = field(default_factory=Traffic)
    workers: ThreadWorkers = field(default_factory=ThreadWorkers)

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    def max_fetch_bytes(self) -> int:
        """How large a response may be, given the bytes that slow clients have not read yet."""
        left = self.settings.integer("catchment.unsent.max.bytes") - self.traffic.unsent_bytes
        return max(_MIN_FETCH_BYTES, min(left, self.settings.integer("fetch.max.bytes"), _MAX_RESPONSE_BYTES))


class RequestContext(NamedTuple):
    services: Services
    header: RequestHeader
    listener_name: str
    client_host: str
    connection: Connection | None = None
    """None for a request that the broker makes itself."""
    meter: RequestMeter | None = None
    """Counts what the request uses, while the cluster has quotas."""

    @property
    def image(self) -> MetadataImage:
        return self.services.controller.image

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""
