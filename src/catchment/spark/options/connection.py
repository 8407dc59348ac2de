"""How Spark's processes reach the cluster: the options that begin with `kafka.`, as people write them for Spark's own source.

Those options have the Java client's names. A setting that has another name in this client is translated, one without a meaning here
is ignored, and an unknown name is rejected with the closest known one.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from catchment.client.cluster import Cluster
from catchment.client.errors import SettingsError
from catchment.client.settings import KNOWN_SETTINGS, ConnectionSettings, split_addresses
from catchment.spark.options.java_settings import IGNORED, REFUSED, ROLE_SETTINGS, TRANSLATED

PREFIX: Final = "kafka."
DEFAULT_TIMEOUT_S: Final = 30.0
_SERVERS: Final = "bootstrap.servers"
_TIMEOUT: Final = "default.api.timeout.ms"
_SECRET: Final = re.compile(r"password|jaas|secret|\.key$")

_MOST_CLUSTERS: Final = 16

_clusters: OrderedDict[tuple[int, Connection], Cluster] = OrderedDict()


@dataclass(frozen=True)
class Connection:
    """What it takes to connect; small, so that it goes to every task."""

    bootstrap_servers: str
    settings: tuple[tuple[str, str], ...] = ()
    """The client's own settings, sorted by name."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """How long a call may take, with all its repetitions, and a read without progress."""

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Connection:
        """From the options of a source or sink. SettingsError names what is wrong, and what to do about it."""
        given = kafka_settings(options)
        servers = given.pop(_SERVERS, "").strip()
        if not servers:
            raise SettingsError(
                f"the option {PREFIX}{_SERVERS} is missing", f'Add .option("{PREFIX}{_SERVERS}", "host:9092").'
            )
        settings: dict[str, str] = {}
        for name, value in given.items():
            if name in KNOWN_SETTINGS:
                settings[name] = value
            elif name in TRANSLATED:
                settings |= TRANSLATED[name](given)
            elif name in REFUSED:
                raise SettingsError(f"the option {PREFIX}{name} is not supported", REFUSED[name])
            elif name not in IGNORED and name not in ROLE_SETTINGS:
                raise SettingsError(f"unknown option {PREFIX}{name}", _nearest(name))
        split_addresses(servers)
        ConnectionSettings.read(settings)
        return cls(servers, tuple(sorted(settings.items())), _timeout_s(given))

    def cluster(self) -> Cluster:
        """The cluster, for the main thread of this process: one for each connection, which stays open between tasks."""
        # A forked worker must not share its parent's sockets.
        key = (os.getpid(), self)
        if key not in _clusters:
            _clusters[key] = self.new_cluster()
        _clusters.move_to_end(key)
        ours = [one for one in _clusters if one[0] == os.getpid()]
        for oldest in ours[:-_MOST_CLUSTERS]:
            # A caller that still holds it reconnects at its next use.
            _clusters.pop(oldest).close()
        return _clusters[key]

    def new_cluster(self) -> Cluster:
        """A cluster of the caller's own, for another thread. The caller closes it."""
        return Cluster(self.bootstrap_servers, dict(self.settings), timeout_s=self.timeout_s)

    def __repr__(self) -> str:
        shown = {name: "…" if _SECRET.search(name) else value for name, value in self.settings}
        return f"Connection({self.bootstrap_servers!r}, {shown})"


def kafka_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The options for the client, without their prefix; Spark's options know no upper and lower case."""
    return {
        name.lower().removeprefix(PREFIX): str(value)
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }


def _timeout_s(given: Mapping[str, str]) -> float:
    text = given.get(_TIMEOUT, str(round(DEFAULT_TIMEOUT_S * 1000)))
    if not text.isdecimal() or int(text) == 0:
        raise SettingsError(
            f"the option {PREFIX}{_TIMEOUT} cannot be {text!r}", "Give a whole number of milliseconds above 0."
        )
    return int(text) / 1000


def _nearest(name: str) -> str:
    known = [*KNOWN_SETTINGS, *TRANSLATED, *ROLE_SETTINGS, *IGNORED, _SERVERS]
    near = get_close_matches(name, known, n=1)
    return f"Did you mean {PREFIX}{near[0]}?" if near else "Leave it out; the reference of options has those there are."
