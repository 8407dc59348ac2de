"""AlterConfigs and IncrementalAlterConfigs: what changes, what is refused, with Kafka's codes."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8
from tests.broker.handlers.config_requests import BROKER, TOPIC, Step, start_client

from catchment.broker.handlers.incremental_alter_configs import Operation, incremental_alter_configs

SET, DELETE, APPEND, SUBTRACT = Operation
OK = (ErrorCode.none, None)


async def test_set_and_delete_touch_nothing_else() -> None:
    client = await start_client()
    assert await client.incremental(TOPIC, "t", ("segment.bytes", SET, "2000000")) == OK
    assert await client.value(TOPIC, "t", "segment.bytes") == "2000000"
    assert await client.value(TOPIC, "t", "retention.ms") == "1000000"
    assert await client.incremental(TOPIC, "t", ("retention.ms", DELETE, None), ("no.such", DELETE, None)) == OK
    assert await client.value(TOPIC, "t", "retention.ms") == "604800000"


async def test_lists_grow_from_their_default_and_shrink_to_nothing() -> None:
    client = await start_client()
    for _ in range(2):
        assert await client.incremental(TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == OK
        assert await client.value(TOPIC, "t", "cleanup.policy") == "delete,compact"
    assert await client.incremental(TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == OK
    assert await client.value(TOPIC, "t", "cleanup.policy") == "compact"
    assert await client.incremental(TOPIC, "t", ("cleanup.policy", SUBTRACT, "compact,delete")) == OK
    assert await client.value(TOPIC, "t", "cleanup.policy") == ""
    assert await client.incremental(BROKER, "1", ("log.cleanup.policy", APPEND, "compact")) == OK
    assert await client.value(BROKER, "1", "log.cleanup.policy") == "delete,compact"


async def test_two_clients_that_add_to_one_list_both_succeed() -> None:
    client = await start_client()
    throttle = "leader.replication.throttled.replicas"
    await asyncio.gather(*[client.incremental(TOPIC, "t", (throttle, APPEND, f"0:{broker}")) for broker in range(5)])
    value = await client.value(TOPIC, "t", throttle)
    assert value is not None
    assert sorted(value.split(",")) == [f"0:{broker}" for broker in range(5)]


@pytest.mark.parametrize(
    ("steps", "code", "message"),
    [
        ([("segment.bytes", SET, "5")], ErrorCode.invalid_config, "Value must be at least 1048576"),
        ([("segment.bytes", SET, "abc")], ErrorCode.invalid_config, "Not a number of type INT"),
        ([("segment.bytes", SET, None)], ErrorCode.invalid_request, "Null value not supported for : segment.bytes"),
        ([("segment.byte", SET, "5")], ErrorCode.invalid_config, "Did you mean segment.bytes?"),
        ([("retention.ms", APPEND, "5")], ErrorCode.invalid_config, "its type is not LIST"),
        ([("no.such", SUBTRACT, "5")], ErrorCode.invalid_config, "its type is not LIST"),
        ([("retention.ms", SET, "5"), ("retention.ms", SET, "6")], ErrorCode.invalid_request, "duplicate config keys"),
        (
            [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
            ErrorCode.invalid_config,
            "max.compaction.lag.ms",
        ),
        ([("remote.storage.enable", SET, "true")], ErrorCode.invalid_config, "Tiered storage"),
        ([("flush.ms", SET, "7"), ("preallocate", SET, "yes")], ErrorCode.invalid_config, "true or false"),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_a_bad_change_of_a_topic_is_rejected_and_changes_nothing(
    steps: list[Step], code: ErrorCode, message: str, validate_only: bool
) -> None:
    client = await start_client()
    before = client.services.controller.image
    answer = await client.incremental(TOPIC, "t", *steps, validate_only=validate_only)
    assert answer[0] == code
    assert message in (answer[1] or "")
    assert client.services.controller.image is before


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "", ErrorCode.invalid_request),
        (BROKER, "7", ErrorCode.invalid_request),
        (BROKER, "abc", ErrorCode.invalid_request),
        (8, "7", ErrorCode.invalid_request),
        (32, "", ErrorCode.invalid_request),
        (32, "group", ErrorCode.invalid_config),
        (99, "t", ErrorCode.invalid_request),
    ],
)
async def test_a_resource_that_cannot_be_changed_is_rejected(resource_type: int, name: str, code: ErrorCode) -> None:
    client = await start_client()
    assert (await client.incremental(resource_type, name, ("retention.ms", SET, "5")))[0] == code
    assert (await client.alter(resource_type, name, ("retention.ms", "5")))[0] == code


async def test_validate_only_changes_nothing() -> None:
    client = await start_client()
    assert await client.incremental(TOPIC, "t", ("retention.ms", SET, "77"), validate_only=True) == OK
    assert await client.alter(TOPIC, "t", ("retention.ms", "77"), validate_only=True) == OK
    assert await client.incremental(BROKER, "", ("log.retention.ms", SET, "77"), validate_only=True) == OK
    assert await client.value(TOPIC, "t", "retention.ms") == "1000000"
    assert await client.value(BROKER, "1", "log.retention.ms") is None


async def test_alter_replaces_everything_that_was_overridden() -> None:
    client = await start_client()
    assert await client.alter(TOPIC, "t", ("segment.bytes", "2000000")) == OK
    assert await client.value(TOPIC, "t", "segment.bytes") == "2000000"
    assert await client.value(TOPIC, "t", "retention.ms") == "604800000"
    assert (await client.alter(TOPIC, "t", ("retention.ms", None)))[0] == ErrorCode.invalid_request
    assert (await client.alter(TOPIC, "t", ("retention.ms", "1"), ("retention.ms", "2")))[
        0
    ] == ErrorCode.invalid_request
    assert (await client.alter(TOPIC, "t", ("retention.ms", "x")))[0] == ErrorCode.invalid_config
    assert await client.alter(TOPIC, "t") == OK
    assert await client.value(TOPIC, "t", "segment.bytes") == "1073741824"


async def test_broker_settings_take_effect_at_once() -> None:
    client = await start_client()
    assert await client.incremental(BROKER, "", ("message.max.bytes", SET, "10")) == OK
    assert client.services.settings.integer("message.max.bytes") == 10
    assert await client.incremental(BROKER, "1", ("message.max.bytes", SET, "20")) == OK
    assert client.services.settings.topic_values()["max.message.bytes"] == 20
    assert await client.alter(BROKER, "1") == OK
    assert client.services.settings.integer("message.max.bytes") == 10


@pytest.mark.parametrize("name", ["", "1"])
@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("num.partitions", "3", "Cannot update these configs dynamically: [num.partitions]"),
        ("quota.window.num", "3", "Cannot update these configs dynamically: [quota.window.num]"),
        ("log.retention.ms", "x", "Not a number of type LONG"),
        ("log.retention.ms", "0", "at least 1 millisecond"),
        ("message.max.bytes", "-5", "Value must be at least 0"),
        ("max.connections.per.ip.overrides", "garbage", "address:limit"),
    ],
)
async def test_a_bad_change_of_a_broker_is_rejected(name: str, setting: str, value: str, message: str) -> None:
    client = await start_client()
    code, text = await client.incremental(BROKER, name, (setting, SET, value))
    assert code == ErrorCode.invalid_request
    assert message in (text or "")


async def test_a_bad_default_is_rejected_even_where_this_broker_hides_it() -> None:
    client = await start_client()
    assert await client.incremental(BROKER, "1", ("message.max.bytes", SET, "5")) == OK
    assert (await client.incremental(BROKER, "", ("message.max.bytes", SET, "x")))[0] == ErrorCode.invalid_request


async def test_dynamic_settings_of_kafka_that_we_lack_are_kept() -> None:
    client = await start_client()
    assert await client.incremental(BROKER, "1", ("num.io.threads", SET, "9")) == OK
    assert (await client.config(BROKER, "1", "num.io.threads")).config_source == 2
    assert await client.incremental(BROKER, "1", ("num.io.threads", DELETE, None)) == OK
    assert (await client.describe(BROKER, "1", ("num.io.threads",))).configs == ()


async def test_an_unknown_operation_is_rejected() -> None:
    client = await start_client()
    resource = AlterConfigsResource(
        resource_type=i8(TOPIC),
        resource_name="t",
        configs=(AlterableConfig(name="retention.ms", config_operation=i8(9), value="5"),),
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    (response,) = (await incremental_alter_configs(client.context(44, 1), request)).responses
    assert response.error_code == ErrorCode.invalid_request


async def test_a_resource_named_twice_is_rejected_both_times_and_the_others_go_on() -> None:
    client = await start_client()
    config = AlterableConfig(name="log.retention.ms", config_operation=i8(0), value="5")
    broker = AlterConfigsResource(resource_type=i8(BROKER), resource_name="1", configs=(config,))
    topic = AlterConfigsResource(resource_type=i8(TOPIC), resource_name="t", configs=())
    request = IncrementalAlterConfigsRequest(resources=(topic, broker, topic), validate_only=False)
    response = await incremental_alter_configs(client.context(44, 1), request)
    assert [part.error_code for part in response.responses] == [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]


async def test_a_subscription_to_metrics_is_rejected_and_may_be_deleted() -> None:
    client, client_metrics = await start_client(), 16
    assert await client.incremental(client_metrics, "m", ("interval.ms", DELETE, None)) == OK
    code, message = await client.incremental(client_metrics, "m", ("interval.ms", SET, "1000"))
    assert (code, "KIP-714" in (message or "")) == (ErrorCode.invalid_request, True)
    assert await client.incremental(client_metrics, "m", ("nope", SET, "1")) == (
        ErrorCode.invalid_request,
        "Unknown client metrics configuration: nope",
    )
    assert (await client.incremental(client_metrics, "", ("interval.ms", SET, "1")))[0] is ErrorCode.invalid_request
