"""Settings of groups through the handlers: changed, described, listed and kept."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.static.primitive import i8
from tests.broker.handlers.config_requests import start_client

from catchment.broker.admin.config_changes import ResourceType
from catchment.broker.handlers.incremental_alter_configs import Operation
from catchment.broker.handlers.list_config_resources import list_config_resources
from catchment.cluster.controller import Controller
from catchment.cluster.local_store import LocalStore
from catchment.ports.memory_disk import MemoryDisk
from catchment.settings.groups import GROUP_SETTINGS

GROUP = int(ResourceType.GROUP)
OK = (ErrorCode.none, None)
RESET = "share.auto.offset.reset"


async def test_a_group_has_settings_before_it_exists_and_until_they_are_deleted() -> None:
    client = await start_client()
    assert await client.incremental(GROUP, "g", (RESET, Operation.SET, "earliest")) == OK
    assert (await client.config(GROUP, "g", RESET)).value == "earliest"
    assert await client.value(GROUP, "other", RESET) == "latest"
    assert client.services.controller.image.group_settings == {"g": {RESET: "earliest"}}
    assert await client.incremental(GROUP, "g", (RESET, Operation.DELETE, None)) == OK
    assert client.services.controller.image.group_settings == {}
    assert await client.value(GROUP, "g", RESET) == "latest"


async def test_all_settings_of_a_group_are_described_with_where_they_come_from() -> None:
    client = await start_client()
    timeout = "share.session.timeout.ms"
    await client.alter(GROUP, "g", (timeout, "46000"))
    described = await client.describe(GROUP, "g")
    assert [config.name for config in described.configs] == list(GROUP_SETTINGS)
    config = await client.config(GROUP, "g", timeout)
    assert (config.value, config.config_source) == ("46000", 8)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms] == [
        (timeout, "46000", 8),
        ("group.share.session.timeout.ms", "45000", 5),
    ]


@pytest.mark.parametrize("value", ["", "sometimes"])
async def test_a_value_that_is_invalid_is_rejected_and_nothing_changes(value: str) -> None:
    client = await start_client()
    code, message = await client.incremental(GROUP, "g", (RESET, Operation.SET, value))
    assert code == ErrorCode.invalid_config
    assert message is not None
    assert RESET in message
    assert client.services.controller.image.group_settings == {}


async def test_validate_only_changes_nothing() -> None:
    client = await start_client()
    assert await client.incremental(GROUP, "g", (RESET, Operation.SET, "earliest"), validate_only=True) == OK
    assert client.services.controller.image.group_settings == {}


async def test_a_group_without_a_name_is_rejected() -> None:
    client = await start_client()
    assert (await client.describe(GROUP, "")).error_code == ErrorCode.invalid_request


async def test_groups_with_settings_are_listed() -> None:
    client = await start_client()
    await client.incremental(GROUP, "g", (RESET, Operation.SET, "earliest"))
    request = ListConfigResourcesRequest(resource_types=(i8(GROUP),))
    response = await list_config_resources(client.context(74, 1), request)
    assert [(one.resource_name, one.resource_type) for one in response.config_resources] == [("g", GROUP)]


@pytest.mark.parametrize("group_id", ["g", "..", "a/b", "ein Gespräch", "%2F"])
async def test_settings_of_a_group_survive_a_restart(group_id: str) -> None:
    disk = MemoryDisk()
    controller = Controller(LocalStore(disk, "/data/catchment-metadata"), 1)
    await controller.start()
    await controller.change_group_settings(group_id, lambda _: {RESET: "earliest"})
    await controller.change_group_settings(group_id, lambda given: {**given, "share.isolation.level": "read_committed"})
    again = Controller(LocalStore(disk, "/data/catchment-metadata"), 1)
    await again.start()
    expected = {group_id: {RESET: "earliest", "share.isolation.level": "read_committed"}}
    assert again.image.group_settings == expected
    await again.change_group_settings(group_id, lambda _: {})
    last = Controller(LocalStore(disk, "/data/catchment-metadata"), 1)
    await last.start()
    assert last.image.group_settings == {}
