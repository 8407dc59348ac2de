"""The options of the sink, read and checked before anything is written.

They have the names of Spark's own Kafka sink where they mean the same; `OPTIONS` holds those that are this sink's own, and
`KAFKA_OPTIONS` what it reads of the Java producer's settings. What else begins with `kafka.` is the connection's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast, get_args

from catchment.client.batch_settings import DEFAULT_BATCH_BYTES, Codec
from catchment.client.errors import SettingsError
from catchment.spark.connection import Connection, kafka_settings
from catchment.spark.option_mistakes import misspelt_names

EXACTLY_ONCE: Final = "exactlyOnce"
AT_LEAST_ONCE: Final = "atLeastOnce"
DEFAULT_PREFIX: Final = "catchment-spark"
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 15 * 60 * 1000
"""What brokers allow unless told otherwise."""

OPTIONS: Final = ("topic", "deliveryGuarantee", "transactionalIdPrefix", "checkpointLocation", "sinkName")
KAFKA_OPTIONS: Final = (
    "kafka.compression.type",
    "kafka.compression.gzip.level",
    "kafka.compression.lz4.level",
    "kafka.compression.zstd.level",
    "kafka.delivery.timeout.ms",
    "kafka.max.request.size",
    "kafka.transaction.timeout.ms",
)

_CODECS: Final = get_args(Codec)
_LEVELS: Final[dict[str, tuple[int, int]]] = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True)
class SinkOptions:
    """All that a task needs to know of the options; small, for it goes to every one."""

    connection: Connection
    topic: str | None
    """Where every row goes; None where a column says it."""
    is_exactly_once: bool
    transactional_id_prefix: str
    transaction_timeout_ms: int
    delivery_timeout_ms: int
    codec: Codec
    level: int | None
    max_record_bytes: int
    checkpoint: str | None
    sink_name: str | None = None
    """Tells several writes of one batch apart; None for the only one."""

    @classmethod
    def read(cls, options: Mapping[str, str]) -> SinkOptions:
        """SettingsError names the option that is wrong, and what to do about it."""
        given = {name.lower(): str(value) for name, value in options.items()}
        for mistake in misspelt_names(options, OPTIONS):
            raise mistake
        kafka = kafka_settings(options)
        if "transactional.id" in kafka:
            raise SettingsError(
                "the option kafka.transactional.id names one id for many tasks",
                "Set transactionalIdPrefix; each task makes an id of its own from it.",
            )
        codec = cast("Codec", _choice("kafka.compression.type", kafka.get("compression.type", "none"), _CODECS))
        level_name = f"compression.{codec}.level"
        guarantee = _choice(
            "deliveryGuarantee", given.get("deliveryguarantee", EXACTLY_ONCE), (EXACTLY_ONCE, AT_LEAST_ONCE)
        )
        return cls(
            connection=Connection.read(options),
            topic=given.get("topic"),
            is_exactly_once=guarantee == EXACTLY_ONCE,
            transactional_id_prefix=given.get("transactionalidprefix", DEFAULT_PREFIX),
            transaction_timeout_ms=_number(kafka, "transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS),
            delivery_timeout_ms=_number(kafka, "delivery.timeout.ms", 120_000),
            codec=codec,
            level=_level(kafka, codec) if level_name in kafka else None,
            max_record_bytes=_number(kafka, "max.request.size", DEFAULT_BATCH_BYTES),
            checkpoint=given.get("checkpointlocation"),
            sink_name=_name("sinkName", given.get("sinkname")),
        )


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    for choice in choices:
        if value.lower() == choice.lower():
            return choice
    raise SettingsError(f"the option {name} is {value!r}", f"It may be {', '.join(choices[:-1])} or {choices[-1]}.")


def _level(kafka: Mapping[str, str], codec: Codec) -> int:
    """Within the bounds that the Java producer has for each codec."""
    name = f"compression.{codec}.level"
    least, most = _LEVELS.get(codec, (1, 1))
    try:
        level = int(kafka[name])
    except ValueError:
        level = most + 1
    if not least <= level <= most and (codec, level) != ("gzip", -1):
        raise SettingsError(f"the option kafka.{name} is {kafka[name]!r}", f"Give a number from {least} to {most}.")
    return level


def _name(option: str, text: str | None) -> str | None:
    if text is not None and not _NAME.fullmatch(text):
        raise SettingsError(f"the option {option} is {text!r}", "Use letters, digits, dots, hyphens and underscores.")
    return text


def _number(kafka: Mapping[str, str], name: str, default: int) -> int:
    text = kafka.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 < number < 2**31:
        raise SettingsError(f"the option kafka.{name} is {text!r}", "Give a whole number from 1 to 2147483647.")
    return number
