"""The options of the sink, read and checked as a whole before anything is written.

They have the names of Spark's own Kafka sink where they mean the same; `OPTIONS` holds those that are this sink's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast, get_args

from catchment.client.settings import DEFAULT_BATCH_BYTES, Codec
from catchment.spark.options.connection import Connection
from catchment.spark.options.fields import OptionFields
from catchment.spark.options.mistakes import OptionMistakes, misspelt_names

EXACTLY_ONCE: Final = "exactlyOnce"
AT_LEAST_ONCE: Final = "atLeastOnce"
DEFAULT_PREFIX: Final = "catchment-spark"
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 15 * 60 * 1000
"""The default limit of brokers."""
DEFAULT_DELIVERY_TIMEOUT_MS: Final = 120_000

OPTIONS: Final = (
    "topic",
    "deliveryGuarantee",
    "transactionalIdPrefix",
    "checkpointLocation",
    "sinkName",
    "risingTimestamps",
    "valueFormat",
    "valueFraming",
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
    has_rising_timestamps: bool = False
    """Whether the records of a batch are made later than those of every batch before it."""

    @classmethod
    def read(cls, options: Mapping[str, str]) -> SinkOptions:
        """SettingsError tells all that is wrong at once."""
        mistakes = OptionMistakes(misspelt_names(options, OPTIONS))
        fields = OptionFields(options, mistakes)
        if fields.text("kafka.transactional.id") is not None:
            mistakes.add(
                "the option kafka.transactional.id names one id for many tasks",
                "Set transactionalIdPrefix; each task makes an id of its own from it.",
            )
        codec = cast("Codec", fields.choice("kafka.compression.type", _CODECS))
        sink_name = fields.text("sinkName")
        if sink_name is not None and not _NAME.fullmatch(sink_name):
            fields.wrong("sinkName", "Use letters, digits, dots, hyphens and underscores.")
        read = cls(
            connection=mistakes.tried(lambda: Connection.read(options), Connection("")),
            topic=fields.text("topic"),
            is_exactly_once=fields.choice("deliveryGuarantee", (EXACTLY_ONCE, AT_LEAST_ONCE)) == EXACTLY_ONCE,
            transactional_id_prefix=fields.text("transactionalIdPrefix") or DEFAULT_PREFIX,
            transaction_timeout_ms=fields.number("kafka.transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS),
            delivery_timeout_ms=fields.number("kafka.delivery.timeout.ms", DEFAULT_DELIVERY_TIMEOUT_MS),
            codec=codec,
            level=_level(fields, codec),
            max_record_bytes=fields.number("kafka.max.request.size", DEFAULT_BATCH_BYTES),
            checkpoint=fields.text("checkpointLocation"),
            sink_name=sink_name,
            has_rising_timestamps=fields.flag("risingTimestamps", False),
        )
        if read.has_rising_timestamps and not (read.is_exactly_once and read.checkpoint):
            mistakes.add(
                "the option risingTimestamps needs deliveryGuarantee=exactlyOnce and checkpointLocation",
                "The times of earlier batches are found in the checkpoint.",
            )
        mistakes.raise_any()
        return read


def _level(fields: OptionFields, codec: Codec) -> int | None:
    """Within the bounds that the Java producer has for each codec; None for the codec's own."""
    name = f"kafka.compression.{codec}.level"
    text = fields.text(name)
    if text is None or codec not in _LEVELS:
        return None
    if (codec, text.strip()) == ("gzip", "-1"):
        return -1
    least, most = _LEVELS[codec]
    return fields.number(name, most, least=least, most=most)
