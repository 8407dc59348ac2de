"""Changes of the settings of topics, brokers and groups, for AlterConfigs and IncrementalAlterConfigs.

Every check runs inside the controller's change, on the current settings, so that two clients that append to the same list do not
overwrite each other. The error codes are Kafka's: INVALID_CONFIG for a topic or a group, INVALID_REQUEST for a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from kio.schema.errors import ErrorCode

from catchment.broker.admin.logger_levels import check_levels, own_levels, set_levels
from catchment.broker.context import RequestContext
from catchment.protocol.errors import ApiError
from catchment.settings.broker import BrokerSettings
from catchment.settings.definitions.broker import BROKER_SETTINGS
from catchment.settings.definitions.client_metrics import CLIENT_METRICS_SETTINGS
from catchment.settings.definitions.ignored import READ_ONLY_IN_KAFKA
from catchment.settings.definitions.topics import validate_topic_settings
from catchment.settings.groups import validate_group_settings
from catchment.settings.setting import InvalidSetting, UpdateMode

Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From the current overrides of a resource to the new ones."""


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def check_topic_settings(overrides: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raise INVALID_CONFIG unless a topic of this broker may have these settings."""
    try:
        validate_topic_settings(overrides, settings.topic_values())
    except InvalidSetting as error:
        raise ApiError(ErrorCode.invalid_config, str(error)) from error


def check_names_and_values(configs: Sequence[tuple[str, str | None]]) -> None:
    """Raise ApiError if a request names a setting twice, or lacks a value."""
    missing = [name for name, value in configs if value is None]
    if missing:
        raise ApiError(ErrorCode.invalid_request, f"Null value not supported for : {','.join(missing)}")
    if len({name for name, _ in configs}) < len(configs):
        raise ApiError(ErrorCode.invalid_request, "Error due to duplicate config keys")


async def change_resource(
    context: RequestContext, resource_type: int, name: str, change: Change, *, validate_only: bool
) -> None:
    """Change a topic, a group, this broker or its loggers or, with an empty name, the default of all brokers.

    Raises ApiError if the change is invalid.
    """
    if resource_type == ResourceType.TOPIC:
        await _change_topic(context, name, change, validate_only=validate_only)
    elif resource_type == ResourceType.BROKER:
        await _change_broker(context, broker_of(context, name), change, validate_only=validate_only)
    elif resource_type == ResourceType.BROKER_LOGGER:
        _change_loggers(context, name, change, validate_only=validate_only)
    elif resource_type == ResourceType.GROUP:
        await _change_group(context, name, change, validate_only=validate_only)
    elif resource_type == ResourceType.CLIENT_METRICS:
        _check_client_metrics(name, change)
    else:
        raise ApiError(ErrorCode.invalid_request, f"Unknown resource type {resource_type}")


def broker_of(context: RequestContext, name: str) -> int | None:
    """The broker that a resource names: this one, or None for all. Clients send changes of a broker to the broker itself."""
    if not name:
        return None
    try:
        broker_id = int(name)
    except ValueError:
        reason = f"Broker id must be an integer, but it is: {name}"
        raise ApiError(ErrorCode.invalid_request, reason) from None
    if broker_id != context.services.node_id:
        reason = f"Unexpected broker id, expected {context.services.node_id} or empty string, but received {name}"
        raise ApiError(ErrorCode.invalid_request, reason)
    return broker_id


def check_names_this_broker(context: RequestContext, name: str) -> None:
    """Raise ApiError unless a resource names this broker: there are no loggers for all brokers."""
    if broker_of(context, name) is None:
        raise ApiError(ErrorCode.invalid_request, "Broker id must not be empty")


async def _change_topic(context: RequestContext, name: str, change: Change, *, validate_only: bool) -> None:
    if not name:
        raise ApiError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    topic = context.image.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")

    def checked(current: Mapping[str, str]) -> Mapping[str, str]:
        changed = change(current)
        check_topic_settings(changed, context.services.settings)
        return changed

    if validate_only:
        checked(topic.settings)
    else:
        await context.services.controller.change_topic_settings(name, checked)


async def _change_broker(
    context: RequestContext, broker_id: int | None, change: Change, *, validate_only: bool
) -> None:
    def checked(current: Mapping[str, str]) -> Mapping[str, str]:
        changed = change(current)
        read_only = sorted(name for name in changed if _is_read_only(name) and current.get(name) != changed[name])
        if read_only:
            reason = f"Cannot update these configs dynamically: [{', '.join(read_only)}]"
            raise ApiError(ErrorCode.invalid_request, reason)
        _check_broker_settings(context, broker_id, changed)
        return changed

    if validate_only:
        checked(_dynamic(context, broker_id))
    else:
        await context.services.controller.change_broker_settings(broker_id, checked)


async def _change_group(context: RequestContext, group_id: str, change: Change, *, validate_only: bool) -> None:
    if not group_id:
        raise ApiError(ErrorCode.invalid_request, "Groups have no default settings: name a group.")

    def checked(current: Mapping[str, str]) -> Mapping[str, str]:
        changed = change(current)
        try:
            validate_group_settings(changed, context.services.settings)
        except InvalidSetting as error:
            raise ApiError(ErrorCode.invalid_config, str(error)) from error
        return changed

    if validate_only:
        checked(context.image.group_settings.get(group_id, {}))
    else:
        await context.services.controller.change_group_settings(group_id, checked)


def _check_client_metrics(name: str, change: Change) -> None:
    """A subscription would be stored and never used, so only a request without changes is accepted."""
    if not name:
        raise ApiError(ErrorCode.invalid_request, "Subscription name can't be empty")
    changed = change({})
    for setting in changed:
        if setting not in CLIENT_METRICS_SETTINGS:
            raise ApiError(ErrorCode.invalid_request, f"Unknown client metrics configuration: {setting}")
    if changed:
        reason = f"Cannot create the subscription {name}: Catchment does not collect client metrics (KIP-714)."
        raise ApiError(ErrorCode.invalid_request, reason)


def _change_loggers(context: RequestContext, name: str, change: Change, *, validate_only: bool) -> None:
    check_names_this_broker(context, name)
    changed = change(own_levels())
    check_levels(changed)
    if not validate_only:
        set_levels(changed)


def _is_read_only(name: str) -> bool:
    setting = BROKER_SETTINGS.get(name)
    return name in READ_ONLY_IN_KAFKA if setting is None else setting.update_mode is UpdateMode.READ_ONLY


def _dynamic(context: RequestContext, broker_id: int | None) -> Mapping[str, str]:
    image = context.image
    return image.default_broker_settings if broker_id is None else image.broker_settings.get(broker_id, {})


def _check_broker_settings(context: RequestContext, broker_id: int | None, changed: Mapping[str, str]) -> None:
    """Build the settings that this broker would run with, which parses every value and checks their combination."""
    node_id = context.services.node_id
    for_all = changed if broker_id is None else _dynamic(context, None)
    for_this = changed if broker_id is not None else _dynamic(context, node_id)
    try:
        # A value that a stronger layer overrides must be valid too, so the layer is also parsed alone.
        context.services.settings.with_dynamic(changed, {})
        context.services.settings.with_dynamic(for_all, for_this)
    except InvalidSetting as error:
        raise ApiError(ErrorCode.invalid_request, str(error)) from error
