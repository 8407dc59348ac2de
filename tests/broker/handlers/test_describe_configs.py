"""DescribeConfigs: values, sources, synonyms and flags as Apache Kafka 4.3.1 answers them."""

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.config_requests import BROKER, TOPIC, start_client

from catchment.broker.handlers.incremental_alter_configs import Operation
from catchment.settings.definitions.broker import BROKER_SETTINGS
from catchment.settings.definitions.topics import TOPIC_SETTINGS

# What Kafka 4.3.1 answered for a topic created with retention.ms=1000000 on a broker with log.retention.hours=100: name,
# value, source, type and the names and sources of the synonyms. Left out are the synonyms of the local retention, which is
# tiered storage's, and the cluster-wide min.insync.replicas that Kafka writes for KIP-966.
KAFKA_TOPIC: list[tuple[str, str, int, int, list[tuple[str, int]]]] = [
    ("cleanup.policy", "delete", 5, 7, [("log.cleanup.policy", 5)]),
    ("compression.gzip.level", "-1", 5, 3, [("compression.gzip.level", 5)]),
    ("compression.lz4.level", "9", 5, 3, [("compression.lz4.level", 5)]),
    ("compression.type", "producer", 5, 2, [("compression.type", 5)]),
    ("compression.zstd.level", "3", 5, 3, [("compression.zstd.level", 5)]),
    ("delete.retention.ms", "86400000", 5, 5, [("log.cleaner.delete.retention.ms", 5)]),
    ("file.delete.delay.ms", "60000", 5, 5, [("log.segment.delete.delay.ms", 5)]),
    ("flush.messages", "9223372036854775807", 5, 5, [("log.flush.interval.messages", 5)]),
    ("flush.ms", "9223372036854775807", 5, 5, []),
    ("follower.replication.throttled.replicas", "", 5, 7, []),
    ("index.interval.bytes", "4096", 5, 3, [("log.index.interval.bytes", 5)]),
    ("leader.replication.throttled.replicas", "", 5, 7, []),
    ("local.retention.bytes", "-2", 5, 5, [("log.local.retention.bytes", 5)]),
    ("local.retention.ms", "-2", 5, 5, [("log.local.retention.ms", 5)]),
    ("max.compaction.lag.ms", "9223372036854775807", 5, 5, [("log.cleaner.max.compaction.lag.ms", 5)]),
    ("max.message.bytes", "1048588", 5, 3, [("message.max.bytes", 5)]),
    ("message.timestamp.after.max.ms", "3600000", 5, 5, [("log.message.timestamp.after.max.ms", 5)]),
    ("message.timestamp.before.max.ms", "9223372036854775807", 5, 5, [("log.message.timestamp.before.max.ms", 5)]),
    ("message.timestamp.type", "CreateTime", 5, 2, [("log.message.timestamp.type", 5)]),
    ("min.cleanable.dirty.ratio", "0.5", 5, 6, [("log.cleaner.min.cleanable.ratio", 5)]),
    ("min.compaction.lag.ms", "0", 5, 5, [("log.cleaner.min.compaction.lag.ms", 5)]),
    ("min.insync.replicas", "1", 5, 3, [("min.insync.replicas", 5)]),
    ("preallocate", "false", 5, 1, [("log.preallocate", 5)]),
    ("remote.log.copy.disable", "false", 5, 1, []),
    ("remote.log.delete.on.disable", "false", 5, 1, []),
    ("remote.storage.enable", "false", 5, 1, []),
    ("retention.bytes", "-1", 5, 5, [("log.retention.bytes", 5)]),
    ("retention.ms", "1000000", 1, 5, [("retention.ms", 1)]),
    ("segment.bytes", "1073741824", 5, 3, [("log.segment.bytes", 5)]),
    ("segment.index.bytes", "10485760", 5, 3, [("log.index.size.max.bytes", 5)]),
    ("segment.jitter.ms", "0", 5, 5, []),
    ("segment.ms", "604800000", 5, 5, []),
    ("unclean.leader.election.enable", "false", 5, 1, [("unclean.leader.election.enable", 5)]),
]


async def test_a_topic_is_described_as_kafka_describes_it() -> None:
    client = await start_client({"log.retention.hours": "100"})
    result = await client.describe(TOPIC, "t")
    assert (result.error_code, result.error_message) == (ErrorCode.none, "")
    assert [
        (
            config.name,
            config.value,
            config.config_source,
            config.config_type,
            [(synonym.name, synonym.source) for synonym in config.synonyms],
        )
        for config in sorted(result.configs, key=lambda config: config.name)
        if not config.name.startswith("catchment.")
    ] == KAFKA_TOPIC
    assert not any(config.read_only or config.is_sensitive for config in result.configs)
    assert {config.name for config in result.configs} == {
        name for name, setting in TOPIC_SETTINGS.items() if not setting.internal
    }


async def test_only_the_keys_asked_for_are_described_and_unknown_ones_left_out() -> None:
    client = await start_client()
    result = await client.describe(TOPIC, "t", ("retention.ms", "nope"), synonyms=False, documentation=True)
    (config,) = result.configs
    assert config.name == "retention.ms"
    assert config.synonyms == ()
    assert config.documentation == TOPIC_SETTINGS["retention.ms"].documentation
    assert (await client.config(TOPIC, "t", "retention.ms")).documentation is None


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "", ErrorCode.invalid_topic_exception),
        (TOPIC, "a b", ErrorCode.invalid_topic_exception),
        (BROKER, "7", ErrorCode.invalid_request),
        (BROKER, "abc", ErrorCode.invalid_request),
        (8, "", ErrorCode.invalid_request),
        (16, "", ErrorCode.invalid_request),
        (99, "x", ErrorCode.invalid_request),
    ],
)
async def test_what_cannot_be_described_is_an_error_of_its_own(resource_type: int, name: str, code: ErrorCode) -> None:
    result = await (await start_client()).describe(resource_type, name)
    assert result.error_code == code
    assert result.error_message
    assert result.configs == ()


async def test_a_broker_describes_all_its_settings() -> None:
    client = await start_client({"num.partitions": "2", "num.io.threads": "4", "ssl.key.password": "secret"})
    configs = {config.name: config for config in (await client.describe(BROKER, "1")).configs}
    assert set(configs) == {*BROKER_SETTINGS, "num.io.threads", "ssl.key.password"}
    partitions = configs["num.partitions"]
    assert (partitions.value, partitions.read_only, partitions.config_source) == ("2", True, 4)
    assert [(synonym.value, synonym.source) for synonym in partitions.synonyms] == [("2", 4), ("1", 5)]
    threads = configs["num.io.threads"]
    assert (threads.value, threads.read_only, threads.config_source, threads.config_type) == ("4", False, 4, 3)
    assert [(synonym.value, synonym.source) for synonym in threads.synonyms] == [("4", 4), ("8", 5)]
    password = configs["ssl.key.password"]
    assert (password.value, password.is_sensitive, password.synonyms[0].value) == (None, True, None)
    assert not configs["message.max.bytes"].read_only


async def test_dynamic_settings_show_every_layer() -> None:
    client = await start_client({"log.retention.hours": "100"})
    await client.incremental(BROKER, "1", ("log.retention.ms", Operation.SET, "5000000"))
    await client.incremental(BROKER, "", ("log.retention.ms", Operation.SET, "6000000"))
    layers = [
        ("log.retention.ms", "5000000", 2),
        ("log.retention.ms", "6000000", 3),
        ("log.retention.hours", "100", 4),
        ("log.retention.hours", "168", 5),
    ]
    described = await client.config(BROKER, "1", "log.retention.ms")
    assert (described.value, described.config_source) == ("5000000", 2)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in described.synonyms] == layers
    topic = await client.config(TOPIC, "t", "retention.ms")
    assert [(synonym.name, synonym.value, synonym.source) for synonym in topic.synonyms] == [
        ("retention.ms", "1000000", 1),
        *layers,
    ]


async def test_the_default_broker_shows_what_is_set_for_all_and_no_more() -> None:
    client = await start_client()
    assert (await client.describe(BROKER, "")).configs == ()
    await client.incremental(BROKER, "", ("log.retention.ms", Operation.SET, "6"), ("foo.bar", Operation.SET, "x"))
    await client.incremental(BROKER, "1", ("log.retention.ms", Operation.SET, "5"))
    unknown, known = (await client.describe(BROKER, "")).configs
    assert (known.name, known.value, known.config_source, known.read_only) == ("log.retention.ms", "6", 3, False)
    assert (unknown.name, unknown.value, unknown.is_sensitive, unknown.config_type) == ("foo.bar", None, True, 0)
    assert (await client.describe(BROKER, "", ("num.partitions",))).configs == ()


async def test_a_setting_of_one_listener_is_shown_like_the_one_for_all() -> None:
    client = await start_client(
        {
            "listener.name.plaintext.ssl.keystore.type": "PEM",
            "listener.name.plaintext.ssl.keystore.password": "secret",
            "listener.name.plaintext.scram-sha-256.sasl.jaas.config": "secret",
            "ssl.keystore.type": "JKS",
        }
    )
    configs = {config.name: config for config in (await client.describe(BROKER, "1")).configs}
    shown = configs["listener.name.plaintext.ssl.keystore.type"]
    assert (shown.value, shown.is_sensitive, shown.read_only) == ("PEM", False, True)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in shown.synonyms] == [
        ("listener.name.plaintext.ssl.keystore.type", "PEM", 4),
        ("ssl.keystore.type", "JKS", 4),
        ("ssl.keystore.type", "JKS", 5),
    ]
    for name in ("ssl.keystore.password", "scram-sha-256.sasl.jaas.config"):
        secret = configs[f"listener.name.plaintext.{name}"]
        assert (secret.value, secret.is_sensitive) == (None, True)


async def test_a_subscription_to_metrics_has_kafkas_defaults() -> None:
    result = await (await start_client()).describe(16, "m")
    assert {config.name: config.value for config in result.configs} == {
        "interval.ms": "300000",
        "match": "",
        "metrics": "",
    }
