"""ListConfigResources: what is listed for which types and versions."""

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.static.primitive import i8
from tests.broker.handlers.config_requests import start_client

from catchment.broker.handlers.list_config_resources import list_config_resources

BROKER_AND_TOPIC = [("1", 4), ("t", 2)]


@pytest.mark.parametrize(
    ("version", "types", "listed"),
    [
        (1, (), [("1", 8), *BROKER_AND_TOPIC]),
        (1, (4, 2), BROKER_AND_TOPIC),
        (1, (2,), [("t", 2)]),
        (1, (4,), [("1", 4)]),
        (1, (8,), [("1", 8)]),
        (1, (16, 32), []),
        (0, (), []),
    ],
)
async def test_resources_are_listed_by_type(
    version: int, types: tuple[int, ...], listed: list[tuple[str, int]]
) -> None:
    client = await start_client()
    request = ListConfigResourcesRequest(resource_types=tuple(map(i8, types)))
    response = await list_config_resources(client.context(74, version), request)
    assert response.error_code == ErrorCode.none
    assert [(resource.resource_name, resource.resource_type) for resource in response.config_resources] == listed


async def test_an_unknown_type_is_rejected() -> None:
    client = await start_client()
    request = ListConfigResourcesRequest(resource_types=(i8(2), i8(99)))
    response = await list_config_resources(client.context(74, 1), request)
    assert response.error_code == ErrorCode.unsupported_version
    assert response.config_resources == ()
