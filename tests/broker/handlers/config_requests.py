"""A context for the handlers of settings: a real controller on a memory disk, and requests in short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from kio.schema.alter_configs.v2 import request as alter_request
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResourceResult, DescribeConfigsResult
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as incremental_request
from kio.static.primitive import i8

from catchment.broker.admin.config_changes import ResourceType, check_topic_settings
from catchment.broker.context import RequestContext
from catchment.broker.handlers.alter_configs import alter_configs
from catchment.broker.handlers.describe_configs import describe_configs
from catchment.broker.handlers.incremental_alter_configs import Operation, incremental_alter_configs
from catchment.cluster.controller import Controller
from catchment.cluster.local_store import LocalStore
from catchment.cluster.metadata import BrokerImage, Endpoint, MetadataImage
from catchment.cluster.new_topic import NewTopic
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.headers import RequestHeader
from catchment.settings.broker import BrokerSettings

if TYPE_CHECKING:
    from catchment.broker.context import Services

Answer = tuple[ErrorCode, str | None]
Step = tuple[str, Operation, str | None]


@dataclass
class SettingsServices:
    """The services that these handlers use, with settings that follow the image as in a running broker."""

    settings: BrokerSettings
    controller: Controller

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    def follow(self, _: MetadataImage, new: MetadataImage) -> None:
        for_this = new.broker_settings.get(self.node_id, {})
        self.settings = self.settings.with_dynamic(new.default_broker_settings, for_this)


@dataclass
class Client:
    """Sends requests about settings straight to the handlers."""

    services: SettingsServices

    def context(self, api_key: int = 32, api_version: int = 4) -> RequestContext:
        header = RequestHeader(api_key, api_version, 1, None, 0)
        return RequestContext(cast("Services", self.services), header, "PLAINTEXT", "127.0.0.1")

    async def describe(
        self,
        resource_type: int,
        name: str,
        keys: tuple[str, ...] | None = None,
        *,
        synonyms: bool = True,
        documentation: bool = False,
    ) -> DescribeConfigsResult:
        resource = DescribeConfigsResource(resource_type=i8(resource_type), resource_name=name, configuration_keys=keys)
        request = DescribeConfigsRequest(
            resources=(resource,), include_synonyms=synonyms, include_documentation=documentation
        )
        return (await describe_configs(self.context(), request)).results[0]

    async def config(self, resource_type: int, name: str, key: str) -> DescribeConfigsResourceResult:
        return (await self.describe(resource_type, name, (key,))).configs[0]

    async def value(self, resource_type: int, name: str, key: str) -> str | None:
        return (await self.config(resource_type, name, key)).value

    async def incremental(self, resource_type: int, name: str, *steps: Step, validate_only: bool = False) -> Answer:
        request = incremental_request.IncrementalAlterConfigsRequest(
            resources=(
                incremental_request.AlterConfigsResource(
                    resource_type=i8(resource_type),
                    resource_name=name,
                    configs=tuple(
                        incremental_request.AlterableConfig(name=key, config_operation=i8(int(operation)), value=value)
                        for key, operation, value in steps
                    ),
                ),
            ),
            validate_only=validate_only,
        )
        response = (await incremental_alter_configs(self.context(44, 1), request)).responses[0]
        return response.error_code, response.error_message

    async def alter(
        self, resource_type: int, name: str, *configs: tuple[str, str | None], validate_only: bool = False
    ) -> Answer:
        resource = alter_request.AlterConfigsResource(
            resource_type=i8(resource_type),
            resource_name=name,
            configs=tuple(alter_request.AlterableConfig(name=key, value=value) for key, value in configs),
        )
        request = alter_request.AlterConfigsRequest(resources=(resource,), validate_only=validate_only)
        response = (await alter_configs(self.context(33, 2), request)).responses[0]
        return response.error_code, response.error_message


async def start_client(static: dict[str, str] | None = None) -> Client:
    """A client of broker 1, which has the topic `t`."""
    settings = BrokerSettings(static or {})
    controller = Controller(
        LocalStore(MemoryDisk(), "/data/catchment-metadata"),
        settings.node_id,
        validate_topic_settings=lambda overrides: check_topic_settings(overrides, settings),
    )
    await controller.start()
    services = SettingsServices(settings, controller)
    controller.subscribe(services.follow)
    await controller.register_broker(BrokerImage(settings.node_id, {"PLAINTEXT": Endpoint("localhost", 9092)}))
    await controller.create_topic(NewTopic("t", 1, settings={"retention.ms": "1000000"}))
    return Client(services)


TOPIC, BROKER = int(ResourceType.TOPIC), int(ResourceType.BROKER)
