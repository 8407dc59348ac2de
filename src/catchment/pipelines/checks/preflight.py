"""The brokers and the topics that a pipeline reads, checked before Spark starts: what is missing is reported within seconds.

Brokers that restart refuse connections for a moment, so a run waits a few seconds for them. How long they may be away from a run
that has begun is another matter: `--patience`.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from catchment.client.errors import ClientError, SettingsError
from catchment.client.settings import split_address, split_addresses
from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.pipelines.errors import Path

START_WAIT_S: Final = 5.0
"""How long the brokers may be away from a run that has not begun."""
_CONNECT_S: Final = 2.0
_ANSWER_S: Final = 3.0
"""A broker that takes connections has at least this long to answer."""
_PAUSE_S: Final = 0.1
_STEP_S: Final = 0.05
_START: Final = "Start them (`catchment up` runs one), or name others with --bootstrap-server."
_REFUSED_CLIENT: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})


class BrokersAway(ClientError):
    """No broker answers at any of the addresses."""


def topics_there(
    servers: str,
    settings: Mapping[str, str],
    *,
    wait_s: float | None = None,
    on_wait: Callable[[str], None] = lambda reason: None,
) -> frozenset[str]:
    """The names of all topics. Raises `BrokersAway` with the addresses, and SettingsError where the client is not let in.

    `on_wait` is called once with the reason if the first attempt fails.
    """
    addresses = [one.strip() for one in servers.split(",")]
    split_addresses(servers)
    wait_s = START_WAIT_S if wait_s is None else wait_s
    deadline = time.monotonic() + wait_s
    is_first = True
    while True:
        reasons = _unreachable(addresses, deadline)
        if len(reasons) < len(addresses):
            return _listed(servers, settings, max(_ANSWER_S, deadline - time.monotonic()))
        if time.monotonic() > deadline:
            raise BrokersAway(f"no broker answers at {', '.join(reasons)}", _START)
        if is_first:
            on_wait(f"waiting {wait_s:g} s for the brokers: {', '.join(reasons)}")
            is_first = False
        time.sleep(_PAUSE_S)


def missing_topics(specification: PipelineSpecification, there: Collection[str]) -> Iterator[tuple[Path, str]]:
    """The sources and tables whose topics are not there and are not made by the run, with the keys that lead to them."""
    read = [
        *((("sources", name, "topic"), one.topic) for name, one in specification.sources.items()),
        *((("tables", name, "topic"), one.topic) for name, one in specification.tables.items()),
    ]
    if absent := [(path, topic) for path, topic in read if topic not in there]:
        made = _made(specification)
        for path, topic in absent:
            if topic not in made:
                yield path, _missing(path, topic, there)


def _missing(path: Path, topic: str, known: Collection[str]) -> str:
    what = f"the topic {topic} of {path[0]}.{path[1]} does not exist"
    near = get_close_matches(topic, sorted(known), n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{what}; {meant}`catchment topic create {topic}` creates it"


def _made(specification: PipelineSpecification) -> Collection[str]:
    # Only here, for it loads PySpark.
    from catchment.pipelines.execution.topics import wanted_topics
    from catchment.pipelines.graph import Graph

    return wanted_topics(Graph(specification), 1)


def _unreachable(addresses: list[str], deadline: float) -> list[str]:
    """The addresses that take no connection, with the reason, up to the first that does."""
    reasons = []
    for address in addresses:
        timeout_s = max(_STEP_S, min(_CONNECT_S, deadline - time.monotonic()))
        try:
            socket.create_connection(split_address(address), timeout_s).close()
        except TimeoutError:
            reasons.append(f"{address} (no answer)")
        except OSError as error:
            reasons.append(f"{address} ({(error.strerror or str(error)).lower()})")
        except UnicodeError:
            reasons.append(f"{address} (not a host name)")
        else:
            return reasons
    return reasons


def _listed(servers: str, settings: Mapping[str, str], timeout_s: float) -> frozenset[str]:
    """The topics, asked for on a thread: a signal does not interrupt the library's own wait."""
    errors: list[KafkaError] = []
    try:
        own: dict[str, Any] = {"log_level": 0, "bootstrap.servers": servers, "error_cb": errors.append}
        client = AdminClient(own | dict(settings))
    except KafkaException as cause:
        raise SettingsError(
            f"the settings of the brokers are not right: {cause.args[0].str()}", "Correct `kafka` in the pipeline."
        ) from cause
    found: list[frozenset[str] | KafkaException] = []

    def ask() -> None:
        try:
            found.append(frozenset(client.list_topics(timeout=timeout_s).topics))
        except KafkaException as cause:
            found.append(cause)

    thread = threading.Thread(target=ask, name="topics", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_STEP_S)
    [answer] = found
    if isinstance(answer, frozenset):
        return answer
    client.poll(0)
    said = ([one for one in errors if one.code() in _REFUSED_CLIENT] or [answer.args[0]])[-1]
    if said.code() in _REFUSED_CLIENT:
        raise SettingsError(
            f"the brokers at {servers} do not accept the connection: {said.str()}",
            "Check the security settings in `kafka` of the pipeline.",
        ) from answer
    raise BrokersAway(
        f"no broker answers at {servers}: {said.str()}", "Check that a broker is there and is well."
    ) from answer
