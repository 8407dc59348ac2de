"""The clients by name; one that is not installed skips its tests and says so."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from tests.compat.clients.aio_kafka import AioKafka
from tests.compat.clients.client import Client
from tests.compat.clients.java_console import JavaConsole
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.clients.kcat import Kcat
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.java_tool import java_missing

_CLASSES: dict[str, Callable[[str], Client]] = {
    "confluent-kafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
    "kcat": Kcat,
    "java": JavaConsole,
}
CLIENTS = tuple(_CLASSES)


def client(name: str, bootstrap_servers: str) -> Client:
    """The client, or the end of the test as skipped."""
    if (reason := _missing(name)) is not None:
        pytest.skip(reason)
    return _CLASSES[name](bootstrap_servers)


def available(name: str) -> bool:
    return _missing(name) is None


def _missing(name: str) -> str | None:
    if name == "kcat" and shutil.which("kcat") is None:
        return "kcat is not installed"
    return java_missing() if name == "java" else None
