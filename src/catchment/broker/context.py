"""What a handler may touch: the broker's services, and who asks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catchment.cluster.metadata import MetadataImage
from catchment.protocol.headers import RequestHeader

if TYPE_CHECKING:
    from catchment.broker.services import Services

ANONYMOUS = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class RequestContext:
    services: "Services"
    header: RequestHeader
    listener_name: str
    client_host: str
    principal: str = ANONYMOUS

    @property
    def image(self) -> MetadataImage:
        return self.services.controller.image

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""
