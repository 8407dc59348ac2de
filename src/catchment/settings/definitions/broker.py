"""The broker settings that Catchment uses.

The defaults of topic settings are derived from the definitions in `topics`, so that kind, bounds and documentation are written
once. The settings of coordinators are in their own modules. `ignored` lists Kafka's other settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from catchment.settings.definitions.group_coordinator import GROUP_COORDINATOR_SETTINGS
from catchment.settings.definitions.topics import BROKER_SYNONYMS, TOPIC_SETTINGS
from catchment.settings.definitions.transactions import TRANSACTION_SETTINGS
from catchment.settings.setting import Bounds, Choices, Definitions, Kind, Setting, UpdateMode

# Topics accept these, but they have no effect, so there is no broker default.
_WITHOUT_EFFECT: Final = frozenset({"local.retention.bytes", "local.retention.ms"})
# Null by default: then a coarser unit or the scheduler's interval applies.
_NULL_BY_DEFAULT: Final = frozenset({"log.flush.interval.ms", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"})


def _topic_defaults() -> Iterator[Setting]:
    for topic_name, broker_names in BROKER_SYNONYMS.items():
        if topic_name in _WITHOUT_EFFECT:
            continue
        topic_setting = TOPIC_SETTINGS[topic_name]
        name = broker_names[0]
        documentation = f"For topics that do not set `{topic_name}` themselves: {topic_setting.documentation}"
        if len(broker_names) > 1:
            documentation += f" Unless given, {' and then '.join(f'`{other}`' for other in broker_names[1:])} applies."
        yield topic_setting._replace(
            name=name,
            default=None if name in _NULL_BY_DEFAULT else topic_setting.default,
            documentation=documentation,
            update_mode=UpdateMode.CLUSTER_WIDE,
        )


_COARSER_UNITS: Final = [
    Setting(
        "log.flush.scheduler.interval.ms",
        Kind.LONG,
        (1 << 63) - 1,
        "How often the broker checks which logs have to be synced because of `flush.ms`; at least once a second.",
    ),
    Setting(
        "log.retention.hours", Kind.INT, 168, "Like `log.retention.ms`, in hours. The finer unit takes precedence."
    ),
    Setting(
        "log.retention.minutes", Kind.INT, None, "Like `log.retention.ms`, in minutes. The finer unit takes precedence."
    ),
    Setting(
        "log.roll.hours", Kind.INT, 168, "Like `log.roll.ms`, in hours. The finer unit takes precedence.", Bounds(1)
    ),
    Setting(
        "log.roll.jitter.hours",
        Kind.INT,
        0,
        "Like `log.roll.jitter.ms`, in hours. The finer unit takes precedence.",
        Bounds(0),
    ),
]

_IDENTITY_AND_FILES: Final = [
    Setting("broker.id", Kind.INT, -1, "The older name of `node.id`. If both are given they must be equal."),
    Setting("broker.rack", Kind.STRING, None, "The rack or zone of this broker, as Metadata shows it to clients."),
    Setting(
        "catchment.log.format",
        Kind.STRING,
        "text",
        "How the broker's own log lines are written: text for people, json for collectors.",
        Choices(("text", "json")),
    ),
    Setting(
        "catchment.max.open.files",
        Kind.INT,
        512,
        "How many segment and index files may be open at once. The least recently used are closed and reopened on demand, so that "
        "thousands of partitions fit within the limits of the process.",
        Bounds(16),
    ),
    Setting(
        "catchment.metrics.listener",
        Kind.STRING,
        None,
        "Where metrics are served for Prometheus, as `host:port`, for example 127.0.0.1:9308. Metrics are served only if it is set.",
    ),
    Setting(
        "log.dir",
        Kind.LIST,
        ("./catchment-data",),
        "The directory of the logs if `log.dirs` is not given.",
    ),
    Setting("log.dirs", Kind.LIST, None, "The directories of the logs, which may be on different devices."),
    Setting("node.id", Kind.INT, 1, "The id of this broker, unique in its cluster.", Bounds(0)),
]

_LOGS: Final = [
    Setting(
        "log.cleaner.backoff.ms",
        Kind.LONG,
        15_000,
        "How long the log cleaner sleeps when there is no log to clean.",
        Bounds(0),
        UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        Kind.LONG,
        134_217_728,
        "Bytes of memory for the keys of one cleaning, about 192 a key. A log with more keys is cleaned in several passes.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    ),
    Setting("log.cleaner.enable", Kind.BOOLEAN, True, "Whether compacted topics are compacted at all."),
    Setting(
        "log.flush.offset.checkpoint.interval.ms",
        Kind.INT,
        60_000,
        "How often the checkpoints of recovery points, log start offsets and high watermarks are written: recovery starts from them.",
        Bounds(0),
    ),
    Setting(
        "log.retention.check.interval.ms",
        Kind.LONG,
        300_000,
        "How often the broker checks for segments that retention may delete.",
        Bounds(1),
    ),
    Setting(
        "producer.id.expiration.ms",
        Kind.INT,
        86_400_000,
        "How long a partition keeps the state of an idle idempotent producer. "
        "It must be longer than producers retry, or a retry may be written twice.",
        Bounds(1),
        UpdateMode.CLUSTER_WIDE,
    ),
]

_TOPICS: Final = [
    Setting(
        "auto.create.topics.enable",
        Kind.BOOLEAN,
        True,
        "Whether a Metadata request that allows it creates missing topics.",
    ),
    Setting(
        "default.replication.factor",
        Kind.INT,
        1,
        "Replication factor of topics that are created without one.",
    ),
    Setting("delete.topic.enable", Kind.BOOLEAN, True, "Whether DeleteTopics is allowed."),
    Setting(
        "num.partitions",
        Kind.INT,
        1,
        "Number of partitions of topics that are created without one.",
        Bounds(1),
    ),
]

_CONNECTIONS: Final = [
    Setting(
        "advertised.listeners",
        Kind.LIST,
        None,
        "The addresses that clients connect to, in the form of `listeners`, which is the default. "
        "Needed when clients reach the broker by another name, for example from outside a container.",
    ),
    Setting(
        "catchment.unsent.max.bytes",
        Kind.LONG,
        64 << 20,
        "How many bytes of responses may wait for clients to read them, over all connections, before Fetch responses get smaller.",
        Bounds(1 << 20),
    ),
    Setting(
        "connections.max.idle.ms",
        Kind.LONG,
        600_000,
        "A connection that is idle for this long is closed; a negative value keeps it forever.",
    ),
    Setting(
        "fetch.max.bytes",
        Kind.INT,
        55 << 20,
        "The most bytes in one Fetch response, whatever the client asks for. One batch is returned even if it is larger.",
        Bounds(1024),
    ),
    Setting(
        "inter.broker.listener.name",
        Kind.STRING,
        None,
        "The listener for connections between brokers. By default the one with the security protocol PLAINTEXT.",
    ),
    Setting(
        "listener.security.protocol.map",
        Kind.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name, as `name:protocol` pairs.",
    ),
    Setting(
        "listeners",
        Kind.LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where the broker listens, as a comma-separated list of `name://host:port`. No host, or 0.0.0.0, means every interface; port 0 "
        "means a free one. The default is for this machine only, because there is no authentication yet.",
    ),
    Setting(
        "max.connections",
        Kind.INT,
        2_147_483_647,
        "How many connections may be open; any further one is closed at once.",
        Bounds(0),
        UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "max.connections.per.ip",
        Kind.INT,
        2_147_483_647,
        "How many connections one address may have open.",
        Bounds(0),
        UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "max.connections.per.ip.overrides",
        Kind.STRING,
        "",
        "Other limits for single addresses, as in `127.0.0.1:200,10.0.0.7:5`.",
        None,
        UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        Kind.INT,
        1000,
        "How many fetch sessions (KIP-227) are cached. Other clients send their partitions with every fetch.",
        Bounds(0),
    ),
    Setting(
        "max.request.partition.size.limit",
        Kind.INT,
        2000,
        "How many partitions one DescribeTopicPartitions response may have.",
        Bounds(1),
    ),
    Setting(
        "queued.max.requests",
        Kind.INT,
        500,
        "Requests of one connection that may wait for their responses before the broker stops reading from it.",
        Bounds(1),
    ),
    Setting("socket.listen.backlog.size", Kind.INT, 50, "Connections that may wait to be accepted.", Bounds(1)),
    Setting(
        "socket.receive.buffer.bytes",
        Kind.INT,
        -1,
        "Size of a connection's receive buffer in the kernel; -1 lets the system adjust it to the traffic.",
    ),
    Setting(
        "socket.request.max.bytes",
        Kind.INT,
        100 << 20,
        "The largest request. A connection that announces a larger one is closed before anything is read.",
        Bounds(1),
    ),
    Setting(
        "socket.send.buffer.bytes",
        Kind.INT,
        -1,
        "Size of a connection's send buffer in the kernel; -1 lets the system adjust it to the traffic.",
    ),
]

_QUOTAS: Final = [
    Setting(
        "controller.quota.window.num",
        Kind.INT,
        11,
        "How many samples of its `controller_mutation_rate` a client may use at once.",
        Bounds(1),
    ),
    Setting(
        "controller.quota.window.size.seconds",
        Kind.INT,
        1,
        "The length of a sample of `controller_mutation_rate` in seconds.",
        Bounds(1),
    ),
    Setting(
        "quota.window.num",
        Kind.INT,
        11,
        "Over how many samples the rates of clients with a quota are measured, the current one included.",
        Bounds(1),
    ),
    Setting(
        "quota.window.size.seconds",
        Kind.INT,
        1,
        "The length of a sample of a client's rate in seconds; also the longest throttle time for a `request_percentage`.",
        Bounds(1),
    ),
]

BROKER_SETTINGS: Final = Definitions(
    sorted(
        [
            *_IDENTITY_AND_FILES,
            *_CONNECTIONS,
            *GROUP_COORDINATOR_SETTINGS,
            *_QUOTAS,
            *TRANSACTION_SETTINGS,
            *_TOPICS,
            *_LOGS,
            *_COARSER_UNITS,
            *_topic_defaults(),
        ],
        key=lambda setting: setting.name,
    )
)
