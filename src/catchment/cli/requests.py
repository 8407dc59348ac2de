"""Requests to single brokers of a cluster, for APIs that confluent-kafka does not offer.

They use Catchment's own client, with TLS and SASL. Its errors are raised as `CommandError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kio.schema.errors import ErrorCode

from catchment.cli.failure import CommandError
from catchment.cli.wire import client_errors_as_failures, require_reachable
from catchment.client.cluster import GROUP, TRANSACTION, Cluster, Coordinator, Target
from catchment.client.settings import KNOWN_SETTINGS

__all__ = ["GROUP", "TRANSACTION", "Coordinator", "Requests", "Target", "open_requests", "refused"]

_SECURITY = ("security.", "ssl.", "sasl.")


class Requests:
    """The brokers of one cluster; each is connected to with its first request."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def ask(self, request: Any, *, to: Target = "any") -> Any:
        """The answer of the broker that the request is for, as the newest class."""
        with client_errors_as_failures():
            return self._cluster.ask(request, to=to)

    def broker_ids(self) -> list[int]:
        with client_errors_as_failures():
            return self._cluster.broker_ids()


@contextmanager
def open_requests(bootstrap_servers: str, settings: Mapping[str, str], timeout_s: float) -> Iterator[Requests]:
    """Requests to a cluster, each of them answered within `timeout_s`.

    Settings that only librdkafka knows are ignored, except those of security: a connection must never be less secure than
    it was configured to be.
    """
    require_reachable(bootstrap_servers)
    ours = {name: value for name, value in settings.items() if name in KNOWN_SETTINGS or name.startswith(_SECURITY)}
    with client_errors_as_failures():
        cluster = Cluster(bootstrap_servers, {"client.id": "catchment-cli"} | ours, timeout_s=timeout_s)
    with cluster:
        yield Requests(cluster)


def refused(subject: str, code: ErrorCode, message: str | None) -> CommandError:
    """A broker's error code as an error; `subject` names the operation and its target."""
    return CommandError(f"{subject}: {message or code.name.replace('_', ' ')} ({code.name.upper()})")
