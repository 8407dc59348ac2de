"""What DescribeConfigs returns: each setting's value, its source, and its synonyms.

The order of the synonyms, and the cases in which there are none, are Kafka's, because tools show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from itertools import dropwhile
from typing import NamedTuple

from catchment.settings.broker import SYNONYM_GROUPS, BrokerSettings
from catchment.settings.definitions.broker import BROKER_SETTINGS
from catchment.settings.definitions.client_metrics import CLIENT_METRICS_SETTINGS
from catchment.settings.definitions.ignored import general_name, ignored_setting, ignored_settings
from catchment.settings.definitions.topics import BROKER_SYNONYMS, TOPIC_SETTINGS
from catchment.settings.groups import BROKER_NAMES, GROUP_SETTINGS, GroupSettings
from catchment.settings.setting import InvalidSetting, Kind, Setting, UpdateMode, Value


class Source(IntEnum):
    """Where a value comes from, with Kafka's numbers."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    GROUP = 8


class Synonym(NamedTuple):
    name: str
    text: str | None
    source: Source


class Description(NamedTuple):
    """One setting as a client sees it. `kind` is None if neither Catchment nor Kafka defines the name."""

    name: str
    text: str | None
    source: Source
    is_read_only: bool
    is_sensitive: bool
    kind: Kind | None
    documentation: str
    synonyms: Sequence[Synonym]


def describe_topic(settings: BrokerSettings, overrides: Mapping[str, str]) -> list[Description]:
    """Every topic setting, with the overrides of one topic."""
    values = settings.topic_values(overrides)
    return [
        _topic_description(setting, values[setting.name], settings, overrides)
        for setting in TOPIC_SETTINGS.values()
        if not setting.internal
    ]


def describe_broker(settings: BrokerSettings) -> list[Description]:
    """Every setting that this broker uses, and all others that were given."""
    given = {**settings.static, **settings.cluster_dynamic, **settings.broker_dynamic}
    names = sorted({*BROKER_SETTINGS, *given})
    return [_broker_description(name, settings, _broker_synonyms(name, settings)) for name in names]


def describe_all_brokers(settings: BrokerSettings) -> list[Description]:
    """Only the dynamic settings for all brokers, as Kafka describes its default broker."""
    return [
        _broker_description(name, settings, [Synonym(name, settings.cluster_dynamic[name], Source.ALL_BROKERS)])
        for name in sorted(settings.cluster_dynamic)
    ]


def describe_group(settings: BrokerSettings, overrides: Mapping[str, str]) -> list[Description]:
    """Every setting of a group, with its overrides."""
    values = GroupSettings(settings, overrides)
    descriptions = []
    for name, setting in GROUP_SETTINGS.items():
        synonyms = [Synonym(name, overrides[name], Source.GROUP)] if name in overrides else []
        broker_name = BROKER_NAMES[name].default if name in BROKER_NAMES else f"group.{name}"
        synonyms += _broker_synonyms(broker_name, settings) or [
            Synonym(name, setting.render(setting.default), Source.DEFAULT)
        ]
        text = _effective_text(setting, values[name], synonyms)
        descriptions.append(
            Description(
                name,
                text,
                synonyms[0].source,
                False,
                setting.is_sensitive,
                setting.kind,
                setting.documentation,
                synonyms,
            )
        )
    return descriptions


def describe_client_metrics() -> list[Description]:
    """Every setting of a subscription to clients' metrics. None is kept, so all have their defaults."""
    return [
        Description(
            setting.name,
            setting.render(setting.default),
            Source.DEFAULT,
            False,
            setting.is_sensitive,
            setting.kind,
            setting.documentation,
            (),
        )
        for setting in CLIENT_METRICS_SETTINGS.values()
    ]


def _topic_description(
    setting: Setting, value: Value, settings: BrokerSettings, overrides: Mapping[str, str]
) -> Description:
    synonyms = [Synonym(setting.name, setting.render(value), Source.TOPIC)] if setting.name in overrides else []
    if setting.name in BROKER_SYNONYMS:
        synonyms += _broker_synonyms(BROKER_SYNONYMS[setting.name][0], settings)
    text = _effective_text(setting, value, synonyms)
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return Description(
        setting.name, text, source, False, setting.is_sensitive, setting.kind, setting.documentation, synonyms
    )


def _broker_description(name: str, settings: BrokerSettings, synonyms: Sequence[Synonym]) -> Description:
    source = synonyms[0].source if synonyms else Source.DEFAULT
    setting = BROKER_SETTINGS.get(name) or ignored_setting(name)
    if setting is None:
        # A name without a definition may hold a password, so its value is not shown.
        hidden = [synonym._replace(text=None) for synonym in synonyms]
        return Description(name, None, source, True, True, None, "", hidden)
    if name not in BROKER_SETTINGS:
        text = _effective_text(setting, None, synonyms)
    else:
        text = synonyms[0].text if source is Source.ALL_BROKERS else setting.render(settings.stated(name))
    return Description(
        name,
        None if setting.is_sensitive else text,
        source,
        setting.update_mode is UpdateMode.READ_ONLY,
        setting.is_sensitive,
        setting.kind,
        setting.documentation,
        [synonym._replace(text=None) for synonym in synonyms] if setting.is_sensitive else synonyms,
    )


def _broker_synonyms(name: str, settings: BrokerSettings) -> list[Synonym]:
    """The values under this name and its coarser units, highest precedence first.

    Kafka omits those before the first value under the name itself, so a static `log.retention.hours` alone is no synonym of
    `log.retention.ms`.
    """
    layers: Iterable[tuple[Mapping[str, str | None], Source]] = (
        (settings.broker_dynamic, Source.BROKER),
        (settings.cluster_dynamic, Source.ALL_BROKERS),
        (settings.static, Source.STATIC),
        (_default_texts(), Source.DEFAULT),
    )
    group = SYNONYM_GROUPS.get(name) or tuple(dict.fromkeys((name, general_name(name))))
    synonyms = [
        Synonym(member, layer[member], source) for layer, source in layers for member in group if member in layer
    ]
    return list(dropwhile(lambda synonym: synonym.name != name, synonyms))


def _effective_text(setting: Setting, value: Value, synonyms: Sequence[Synonym]) -> str | None:
    """The value as text. For a setting that the broker ignores, that is the given text with the highest precedence."""
    strongest = synonyms[0] if synonyms else None
    if strongest is None or strongest.text is None or ignored_setting(strongest.name) is None:
        return setting.render(value)
    try:
        return setting.render(setting.parse(strongest.text))
    except InvalidSetting:
        return strongest.text


@cache
def _default_texts() -> Mapping[str, str | None]:
    return {
        name: setting.render(setting.default)
        for definitions in (BROKER_SETTINGS, ignored_settings())
        for name, setting in definitions.items()
        if setting.default is not None
    }
