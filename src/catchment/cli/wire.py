"""Kafka clients for the commands, and Kafka's errors as messages with advice.

The commands use only the Kafka protocol, so they work with Apache Kafka as well as with Catchment.
"""

import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata, TopicMetadata

from catchment.cli.failure import FAILED, MISTAKEN, REFUSED, CommandError
from catchment.cli.options import BOOTSTRAP_VARIABLE
from catchment.client import settings as client_settings
from catchment.client.errors import ClientError, SettingsError

CONNECT_TIMEOUT_S = 3.0

# librdkafka would log every reconnect to stderr; errors that matter are raised as CommandError.
_SILENT = {"log_level": 0}

_ADVICE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "`catchment topic list` shows the topics; `catchment topic create` adds one.",
    KafkaError._UNKNOWN_TOPIC: "`catchment topic list` shows the topics; `catchment topic create` adds one.",
    KafkaError._UNKNOWN_PARTITION: "`catchment topic describe` shows its partitions.",
    KafkaError.TOPIC_ALREADY_EXISTS: "Use `catchment topic alter` to change it, or --if-not-exists to accept it as it is.",
    KafkaError.TOPIC_EXCEPTION: "Names have 1 to 249 letters, digits, dots, underscores or hyphens, and are not . or ..",
    KafkaError.INVALID_REPLICATION_FACTOR: "It cannot exceed the number of brokers: a lone broker takes 1.",
    KafkaError.INVALID_PARTITIONS: "A topic has at least one partition, and their number can only grow.",
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise max.message.bytes of the topic, or send smaller records.",
    KafkaError.KAFKA_STORAGE_ERROR: "The broker's disk is full or failing: see its log, and free space if it is full.",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Ask for access to the topic, or give credentials with --client-setting.",
    KafkaError._MSG_TIMED_OUT: "Check that the broker is up and that its advertised.listeners can be reached from here.",
    KafkaError._TIMED_OUT: "Check that the broker is up and that its advertised.listeners can be reached from here.",
    KafkaError._TRANSPORT: "Check that the broker is up and that its advertised.listeners can be reached from here.",
    KafkaError._ALL_BROKERS_DOWN: "Check that the broker is up and that its advertised.listeners can be reached from here.",
}


def explain(error: KafkaError, subject: str) -> CommandError:
    """A CommandError with advice; `subject` names the operation and its target."""
    return CommandError(f"{subject}: {error.str()} ({error.name()})", _ADVICE.get(error.code()))


@contextmanager
def explained(subject: str) -> Iterator[None]:
    """Raise the errors of the client library as `CommandError`."""
    try:
        yield
    except KafkaException as exception:
        raise explain(exception.args[0], subject) from exception


def outcome(future: Future[Any], subject: str) -> Any:
    """The result of an administrative request, or the reason why there is none."""
    with explained(subject):
        return future.result()


def client_config(bootstrap_servers: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """The configuration that all clients share, once the cluster is reachable."""
    require_reachable(bootstrap_servers)
    return {"bootstrap.servers": bootstrap_servers, "client.id": "catchment-cli", **_SILENT, **settings}


def create_client(kind: type[Any], config: Mapping[str, Any]) -> Any:
    """A producer, consumer or admin client; a setting that librdkafka rejects is an error of the command line."""
    try:
        return kind(dict(config))
    except KafkaException as exception:
        raise CommandError(
            f"librdkafka rejects the client settings: {exception.args[0].str()}",
            "Check --client-setting, --client-config and the profile against librdkafka's list of settings.",
            exit_code=MISTAKEN,
        ) from exception


def open_admin(bootstrap_servers: str, settings: Mapping[str, str]) -> AdminClient:
    admin: AdminClient = create_client(AdminClient, client_config(bootstrap_servers, settings))
    return admin


def require_reachable(bootstrap_servers: str) -> None:
    """Fail at once if no broker listens: librdkafka would retry until its timeout."""
    failures = []
    for server in bootstrap_servers.split(","):
        host, port = split_address(server.strip())
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
        except (OSError, UnicodeError) as error:
            failures.append(f"{server.strip()} ({_reason(error)})")
        else:
            return
    raise CommandError(
        f"cannot reach {', '.join(failures)}",
        f"Start a broker with `catchment up`, or name another with --bootstrap-server or {BOOTSTRAP_VARIABLE}.",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_TIMEOUT_S:.0f} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "not a host name"


@contextmanager
def client_errors_as_failures(refusals: tuple[type[ClientError], ...] = ()) -> Iterator[None]:
    """Raise the errors of our own client as `CommandError`; `refusals` are the classes that exit with `REFUSED`."""
    try:
        yield
    except ClientError as error:
        code = REFUSED if isinstance(error, refusals) else MISTAKEN if isinstance(error, SettingsError) else FAILED
        raise CommandError(error.message, error.advice, exit_code=code) from error


def split_address(address: str) -> tuple[str, int]:
    """`host:port`, `[ipv6]:port`, or a host alone on Kafka's usual port."""
    with client_errors_as_failures():
        return client_settings.split_address(address)


def read_metadata(client: Any, timeout_s: float) -> ClusterMetadata:
    """Brokers and topics of the cluster. No topic is named in the request, because that might create it."""
    with explained("no Kafka broker answered"):
        metadata: ClusterMetadata = client.list_topics(timeout=timeout_s)
    return metadata


def require_topic(metadata: ClusterMetadata, topic: str) -> TopicMetadata:
    found = metadata.topics.get(topic)
    if found is None:
        raise_unknown_topic(topic)
    if found.error is not None:
        raise explain(found.error, f"topic {topic}")
    return found


def raise_unknown_topic(topic: str) -> NoReturn:
    raise CommandError(f"topic {topic} does not exist", _ADVICE[KafkaError.UNKNOWN_TOPIC_OR_PART])
