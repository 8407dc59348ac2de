"""The effective settings of a broker: from its file and command line, and from changes at run time.

A `BrokerSettings` is immutable. When dynamic settings change, `with_dynamic` returns a new one, which replaces the old one
everywhere. From lowest to highest precedence: default, static (file, then command line), cluster-wide dynamic, dynamic for
this broker alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from catchment.settings.definitions.broker import BROKER_SETTINGS
from catchment.settings.definitions.ignored import is_ignored
from catchment.settings.definitions.topics import BROKER_SYNONYMS, TOPIC_SETTINGS
from catchment.settings.listeners import Listener, ListenerTable
from catchment.settings.setting import InvalidSetting, UnknownSetting, UpdateMode, Value, suggestion

_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})
_CACHED_TOPIC_VALUES: Final = 4096
# Milliseconds in one unit of the setting.
_UNIT_MS: Final = {
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
    "log.roll.hours": 3_600_000,
    "log.roll.jitter.hours": 3_600_000,
}
SYNONYM_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    member: group for group in BROKER_SYNONYMS.values() if len(group) > 1 for member in group
}


class BrokerSettings:
    """Typed values by name. For settings with coarser synonyms the finest name holds the effective value."""

    def __init__(
        self,
        static: Mapping[str, str] = _EMPTY,
        cluster_dynamic: Mapping[str, str] = _EMPTY,
        broker_dynamic: Mapping[str, str] = _EMPTY,
    ) -> None:
        self.static: Mapping[str, str] = MappingProxyType(_with_node_id(static))
        self.cluster_dynamic: Mapping[str, str] = MappingProxyType(dict(cluster_dynamic))
        self.broker_dynamic: Mapping[str, str] = MappingProxyType(dict(broker_dynamic))
        _check_roles(static)
        self._values = self._merge()
        self._effective = {**self._values, **_effective_units(self._values)}
        self._listeners = ListenerTable.from_settings(static, self._effective)
        self.node_id = self.integer("node.id")
        self.log_dirs = _log_dirs(self._values)
        self.connection_limits_per_address = parse_address_limits(self.text("max.connections.per.ip.overrides") or "")
        self._topic_defaults = self._topic_defaults_of_this_broker()
        self._topic_values = lru_cache(maxsize=_CACHED_TOPIC_VALUES)(self._with_overrides)

    def __getitem__(self, name: str) -> Value:
        return self._effective[name]

    def integer(self, name: str) -> int:
        value = self._effective[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is not a whole number")
        return value

    def number(self, name: str) -> float:
        value = self._effective[name]
        if not isinstance(value, int | float):
            raise TypeError(f"{name} is not a number")
        return value

    def boolean(self, name: str) -> bool:
        value = self._effective[name]
        if not isinstance(value, bool):
            raise TypeError(f"{name} is not true or false")
        return value

    def text(self, name: str) -> str | None:
        value = self._effective[name]
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is not a text")
        return value

    def stated(self, name: str) -> Value:
        """The value under exactly this name, without its synonyms, as DescribeConfigs shows it."""
        return self._values[name]

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Where to listen, in the order given."""
        return self._listeners.bound

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The addresses in Metadata responses. An empty host or port 0 stands for this machine's name or the bound port."""
        return self._listeners.advertised

    @property
    def inter_broker_listener_name(self) -> str:
        return self._listeners.inter_broker_name

    def topic_values(self, overrides: Mapping[str, str] = _EMPTY) -> Mapping[str, Value]:
        """Effective typed topic settings. Equal overrides share one mapping, so thousands of topics cost little.

        Names that are not topic settings are left out: they may come from a newer version's store.
        """
        return self._topic_values(frozenset(overrides.items())) if overrides else self._topic_defaults

    def with_dynamic(self, cluster_dynamic: Mapping[str, str], broker_dynamic: Mapping[str, str]) -> BrokerSettings:
        """The same static settings under other dynamic ones."""
        return BrokerSettings(self.static, cluster_dynamic, broker_dynamic)

    def notices(self) -> Sequence[str]:
        """One line for every given name that has no effect, for the log at startup."""
        return [_notice(name) for name in sorted(self.static) if name not in BROKER_SETTINGS]

    def _merge(self) -> dict[str, Value]:
        """Merge the layers. A name in a later layer also replaces its synonyms in earlier ones."""
        texts = dict(self.static)
        for layer in (self.cluster_dynamic, self.broker_dynamic):
            changes = {name: text for name, text in layer.items() if _may_change(name)}
            for name in changes:
                for synonym in SYNONYM_GROUPS.get(name, ()):
                    texts.pop(synonym, None)
            texts.update(changes)
        return {
            name: setting.parse(texts[name]) if name in texts else setting.default
            for name, setting in BROKER_SETTINGS.items()
        }

    def _topic_defaults_of_this_broker(self) -> Mapping[str, Value]:
        values: dict[str, Value] = {}
        for name, setting in TOPIC_SETTINGS.items():
            broker_name = BROKER_SYNONYMS.get(name, (name,))[0]
            values[name] = self._effective.get(broker_name, setting.default)
        return MappingProxyType(values)

    def _with_overrides(self, overrides: frozenset[tuple[str, str]]) -> Mapping[str, Value]:
        values = dict(self._topic_defaults)
        values.update({name: TOPIC_SETTINGS[name].parse(text) for name, text in overrides if name in TOPIC_SETTINGS})
        if values["internal.segment.bytes"] is not None:
            values["segment.bytes"] = values["internal.segment.bytes"]
        return MappingProxyType(values)


def require_known(names: Sequence[str]) -> None:
    """Raise UnknownSetting for a name that neither Kafka nor Catchment has. For names that were typed by hand."""
    for name in names:
        if name not in BROKER_SETTINGS and not is_ignored(name):
            raise UnknownSetting(name, BROKER_SETTINGS)


def parse_address_limits(text: str) -> Mapping[str, int]:
    """`max.connections.per.ip.overrides` by address. An IPv6 address may hold colons: the last one counts."""
    limits: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        address, _, limit = pair.rpartition(":")
        if not address or not limit.strip().isdecimal():
            raise InvalidSetting("max.connections.per.ip.overrides", text, f"'{pair}' must have the form address:limit")
        limits[address.strip()] = int(limit)
    return MappingProxyType(limits)


def _may_change(name: str) -> bool:
    """Whether the setting is dynamic. Stored values of read-only settings are ignored."""
    return name in BROKER_SETTINGS and BROKER_SETTINGS[name].update_mode is UpdateMode.CLUSTER_WIDE


def _effective_units(values: Mapping[str, Value]) -> dict[str, Value]:
    """The effective value of each setting with coarser units: its own if given, else that of the finest coarser unit that is given."""
    effective: dict[str, Value] = {}
    for names in (names for names in BROKER_SYNONYMS.values() if len(names) > 1):
        for name in names:
            value = values[name]
            if isinstance(value, int):
                milliseconds = value * _UNIT_MS.get(name, 1)
                effective[names[0]] = -1 if milliseconds < 0 else milliseconds
                break
    if effective["log.retention.ms"] == 0:
        raise InvalidSetting("log.retention.ms", 0, "Retention must be -1 (forever) or at least 1 millisecond")
    return effective


def _with_node_id(static: Mapping[str, str]) -> dict[str, str]:
    """The settings with both names of the broker id, if one was given."""
    node_id, broker_id = static.get("node.id"), static.get("broker.id")
    if broker_id is not None and node_id is not None and node_id.strip() != broker_id.strip():
        raise InvalidSetting("broker.id", broker_id, f"It must equal node.id ({node_id}); give only node.id")
    number = node_id if node_id is not None else broker_id
    return dict(static) if number is None else {**static, "node.id": number, "broker.id": number}


def _log_dirs(values: Mapping[str, Value]) -> tuple[Path, ...]:
    given = values["log.dirs"] or values["log.dir"]
    directories = given if isinstance(given, tuple) else ()
    if not directories or not all(directories):
        raise InvalidSetting("log.dirs", ",".join(directories), "Name at least one directory")
    if len(set(directories)) < len(directories):
        raise InvalidSetting("log.dirs", ",".join(directories), "A directory is named twice")
    return tuple(Path(directory) for directory in directories)


def _check_roles(static: Mapping[str, str]) -> None:
    roles = static.get("process.roles", "broker")
    if roles.strip() and "broker" not in [role.strip() for role in roles.split(",")]:
        raise InvalidSetting("process.roles", roles, "Catchment has no process that is a controller only; use broker")


def _notice(name: str) -> str:
    if is_ignored(name):
        return f"{name} is a setting of Kafka that Catchment does not have; it is ignored."
    return f"{name} is not a setting of Catchment; it is ignored.{suggestion(name, BROKER_SETTINGS)}"
