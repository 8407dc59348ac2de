"""Listeners: the addresses that the broker binds, those that it advertises, and the security protocol of each.

The settings and their rules are Kafka's. Only PLAINTEXT is implemented. The other protocols are recognised, so that the error
says that they are not implemented instead of calling them unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from catchment.settings.setting import InvalidSetting, Value

_ENDPOINT: Final = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<six>[0-9a-fA-F:.%]+)\]|(?P<host>[-0-9a-zA-Z._]*)):(?P<port>[0-9]+)"
)
_MOST_LISTENERS: Final = 64


class SecurityProtocol(StrEnum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class Listener(NamedTuple):
    name: str
    security_protocol: SecurityProtocol
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class ListenerTable(NamedTuple):
    """The bound and the advertised listeners."""

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker_name: str

    @classmethod
    def from_settings(cls, given: Mapping[str, str], values: Mapping[str, Value]) -> ListenerTable:
        """Read the listener settings from typed `values`.

        A file written for Kafka may hold a listener for its controller quorum, which `given` names under
        `controller.listener.names`. Catchment has no such quorum, so these listeners are ignored.
        """
        protocols = _protocols(str(values["listener.security.protocol.map"]))
        controllers = {name.strip().upper() for name in given.get("controller.listener.names", "").split(",")}
        bound = _listeners("listeners", values["listeners"], protocols, controllers)
        _check_distinct("listeners", bound, ports=True)
        if values["advertised.listeners"]:
            advertised = _listeners("advertised.listeners", values["advertised.listeners"], protocols, controllers)
        else:
            advertised = bound
        _check_advertised(bound, advertised, by_default=not values["advertised.listeners"])
        return cls(bound, advertised, _inter_broker_name(values["inter.broker.listener.name"], advertised))


def parse_metrics_address(address: str) -> tuple[str, int]:
    """The host and port of `catchment.metrics.listener`."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise InvalidSetting("catchment.metrics.listener", address, "Write host:port, such as 127.0.0.1:9308")
    return host.strip("[]"), int(port)


def _protocols(text: str) -> dict[str, SecurityProtocol]:
    setting = "listener.security.protocol.map"
    protocols: dict[str, SecurityProtocol] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = (part.strip() for part in pair.rpartition(":"))
        if not separator or not name:
            raise InvalidSetting(setting, text, f"'{pair}' must have the form listener:protocol")
        if protocol.upper() not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol)
            raise InvalidSetting(setting, text, f"'{protocol}' is not a security protocol; use one of {known}")
        if name.upper() in protocols:
            raise InvalidSetting(setting, text, f"Listener {name} is named more than once")
        protocols[name.upper()] = SecurityProtocol[protocol.upper()]
    return protocols


def _listeners(
    setting: str, value: Value, protocols: Mapping[str, SecurityProtocol], left_out: set[str]
) -> tuple[Listener, ...]:
    entries = value if isinstance(value, tuple) else ()
    listeners = [_listener(setting, entry, protocols, left_out) for entry in entries]
    served = tuple(listener for listener in listeners if listener is not None)
    if not served:
        raise InvalidSetting(
            setting, ",".join(entries), "Name at least one listener, such as PLAINTEXT://127.0.0.1:9092"
        )
    if len(served) > _MOST_LISTENERS:
        raise InvalidSetting(setting, f"of {len(served)} listeners", f"At most {_MOST_LISTENERS} are allowed")
    _check_distinct(setting, served, ports=False)
    return served


def _listener(
    setting: str, entry: str, protocols: Mapping[str, SecurityProtocol], left_out: set[str]
) -> Listener | None:
    match = _ENDPOINT.fullmatch(entry.strip())
    if match is None or int(match["port"]) > 65_535:
        raise InvalidSetting(setting, entry, "A listener must have the form name://host:port, with a port up to 65535")
    name = match["name"].upper()
    if name in left_out:
        return None
    if name not in protocols:
        reason = f"No security protocol is defined for listener {name}; add {name}:PLAINTEXT to listener.security.protocol.map"
        raise InvalidSetting(setting, entry, reason)
    if protocols[name] is not SecurityProtocol.PLAINTEXT:
        reason = f"{protocols[name]} is not served yet; map {name} to PLAINTEXT in listener.security.protocol.map, or leave it out"
        raise InvalidSetting(setting, entry, reason)
    return Listener(name, protocols[name], match["six"] or match["host"] or "", int(match["port"]))


def _check_distinct(setting: str, listeners: Sequence[Listener], *, ports: bool) -> None:
    text = ",".join(map(str, listeners))
    if len({listener.name for listener in listeners}) < len(listeners):
        raise InvalidSetting(setting, text, "Each listener must have a different name")
    if not ports:
        return
    # An IPv4 and an IPv6 address may share a port, as Kafka allows.
    taken = [(listener.port, ":" in listener.host) for listener in listeners if listener.port != 0]
    if len(set(taken)) < len(taken):
        raise InvalidSetting(setting, text, "Each listener must have a different port")


def _check_advertised(bound: Sequence[Listener], advertised: Sequence[Listener], *, by_default: bool) -> None:
    text = ",".join(map(str, advertised))
    names = {listener.name for listener in bound}
    for listener in advertised:
        if listener.name not in names:
            raise InvalidSetting("advertised.listeners", text, f"{listener.name} is not among listeners; add it there")
        if listener.host in ("0.0.0.0", "::"):
            reason = f"Clients cannot connect to {listener.host}; set advertised.listeners to an address they can reach"
            raise InvalidSetting("listeners" if by_default else "advertised.listeners", text, reason)


def _inter_broker_name(given: Value, advertised: Sequence[Listener]) -> str:
    names = [listener.name for listener in advertised]
    if given is None:
        plain = [listener for listener in advertised if listener.security_protocol is SecurityProtocol.PLAINTEXT]
        return plain[0].name if plain else names[0]
    name = str(given).upper()
    if name not in names:
        raise InvalidSetting(
            "inter.broker.listener.name", name, f"It must be one of the advertised listeners: {', '.join(names)}"
        )
    return name
