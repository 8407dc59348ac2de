"""What a handler may touch: the broker's services, and who asks."""

from typing import TYPE_CHECKING, NamedTuple

from catchment.cluster.metadata import MetadataImage
from catchment.protocol.headers import RequestHeader

if TYPE_CHECKING:
    from catchment.broker.connection import Connection
    from catchment.broker.quotas.meter import RequestMeter
    from catchment.broker.services import Services


LONGEST_WAIT_MS = 30_000
"""How long a request may wait for other clients' doing, whatever it asks for. Kafka has no such bound; a client that gets an
empty answer early asks again, and one that has vanished without a word is noticed by the answer."""


class RequestContext(NamedTuple):
    services: "Services"
    header: RequestHeader
    listener_name: str
    client_host: str
    connection: "Connection | None" = None
    """Where the request came in; None for one that the broker makes itself."""
    meter: "RequestMeter | None" = None
    """Counts what the request uses, while the cluster has quotas."""

    @property
    def image(self) -> MetadataImage:
        return self.services.controller.image

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""
