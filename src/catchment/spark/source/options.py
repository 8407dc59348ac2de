"""The options of the source, by the names that Spark's own Kafka source gives them, checked as a whole.

Names of options are not case-sensitive, as everywhere in Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from catchment.client.errors import SettingsError
from catchment.client.offsets import EARLIEST, LATEST
from catchment.spark.formats.format_options import OPTION_NAMES
from catchment.spark.options.connection import Connection
from catchment.spark.options.fields import OptionFields
from catchment.spark.options.mistakes import OptionMistakes, misspelt_names
from catchment.spark.source.positions import AtOffsets, AtTimes, Position, read_json
from catchment.spark.source.topic_selection import TopicSelection

SOURCE_OPTIONS: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "targetBatchSeconds",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "batchAtStart",
    "groupIdPrefix",
    "watermarkFrom",
    "noteTopics",
    "admission",
    "admitUpTo",
)
AUTO: Final = "auto"
DEFAULT_TARGET_S: Final = 1.0
DEFAULT_DELAY_S: Final = 15 * 60.0
DEFAULT_METADATA_AGE_MS: Final = 1000
DEFAULT_GROUP_PREFIX: Final = "catchment-spark"
_LONG: Final = 2**63 - 1
_ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What a query reads, from where to where, and how much at a time."""

    connection: Connection
    selection: TopicSelection
    start: Position
    end: Position
    fail_on_data_loss: bool
    include_headers: bool
    read_committed: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    target_batch_s: float | None
    """Set if the number of offsets follows the time that batches take."""
    max_bytes_per_trigger: int | None
    """About so many: it is estimated."""
    min_offsets_per_trigger: int | None
    max_trigger_delay_s: float
    group_id: str | None
    group_prefix: str
    metadata_age_s: float
    watermark_from: str | None = None
    """The checkpoint of the query itself, whose watermark and time become columns."""
    note_topics: tuple[str, ...] = ()
    """Topics whose ends are noted with every batch."""
    batch_at_start: bool = False
    """Whether a run begins with a batch even if there are no rows for it."""
    admits_by_time: bool = False
    admit_up_to: str | None = None
    """The checkpoint of the query that writes the topics, whose unfinished batches are not read."""

    @classmethod
    def read(cls, options: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
        """Raises one SettingsError with all mistakes.

        `streaming` is None as long as it is not known; what depends on it is not checked then.
        """
        given = {name.lower(): str(value) for name, value in options.items()}
        mistakes = OptionMistakes(misspelt_names(options, (*SOURCE_OPTIONS, *OPTION_NAMES)))
        fields = OptionFields(options, mistakes)
        is_auto = given.get("maxoffsetspertrigger", "").lower() == AUTO
        most = None if is_auto else fields.count("maxOffsetsPerTrigger", or_else=f", or {AUTO}")
        least = fields.count("minOffsetsPerTrigger")
        if most is not None and least is not None and least > most:
            mistakes.add(
                f"minOffsetsPerTrigger ({least}) is more than maxOffsetsPerTrigger ({most})",
                "Lower it, or raise the other.",
            )
        beginning: Position = AtOffsets(EARLIEST)
        ending: Position = AtOffsets(LATEST)
        read = cls(
            connection=mistakes.tried(lambda: Connection.read(options), Connection("")),
            selection=mistakes.tried(lambda: TopicSelection.read(given), TopicSelection()),
            start=mistakes.tried(lambda: _start(given, fields, streaming), beginning),
            end=mistakes.tried(lambda: _end(given, fields, streaming), ending),
            fail_on_data_loss=fields.flag("failOnDataLoss", True),
            include_headers=fields.flag("includeHeaders", False),
            read_committed=fields.choice("kafka.isolation.level", _ISOLATION_LEVELS) == "read_committed",
            min_partitions=fields.count("minPartitions"),
            max_records_per_partition=fields.count("maxRecordsPerPartition"),
            max_offsets_per_trigger=most,
            target_batch_s=fields.seconds("targetBatchSeconds", DEFAULT_TARGET_S, "s") if is_auto else None,
            max_bytes_per_trigger=fields.size_bytes("maxBytesPerTrigger"),
            min_offsets_per_trigger=least,
            max_trigger_delay_s=fields.seconds("maxTriggerDelay", DEFAULT_DELAY_S, ""),
            group_id=fields.text("kafka.group.id"),
            group_prefix=given.get("groupidprefix", DEFAULT_GROUP_PREFIX),
            metadata_age_s=fields.number("kafka.metadata.max.age.ms", DEFAULT_METADATA_AGE_MS, least=0, most=_LONG)
            / 1000,
            watermark_from=given.get("watermarkfrom"),
            note_topics=fields.names("noteTopics"),
            batch_at_start=fields.flag("batchAtStart", False),
            admits_by_time=fields.choice("admission", ("offsets", "timestamp")) == "timestamp",
            admit_up_to=given.get("admitupto"),
        )
        mistakes.raise_any()
        return read


def _start(given: Mapping[str, str], fields: OptionFields, streaming: bool | None) -> Position:
    """A time for all is stronger than times for each, and those than offsets, as with Spark's own source."""
    strategy = fields.choice("startingOffsetsByTimestampStrategy", ("error", "latest"))
    found = _times(given, fields, "startingTimestamp", "startingOffsetsByTimestamp", strategy == "error")
    if found is not None:
        return found
    start = _offsets(given, "startingOffsets", LATEST if streaming else EARLIEST)
    if streaming is False and start.uses(LATEST):
        raise SettingsError(
            "the option startingOffsets cannot be latest in a batch query, which would read nothing",
            "Name an offset or earliest (-2), or read the topic as a stream.",
        )
    return start


def _end(given: Mapping[str, str], fields: OptionFields, streaming: bool | None) -> Position:
    named = [name for name in SOURCE_OPTIONS if name.startswith("ending") and name.lower() in given]
    if streaming and named:
        raise SettingsError(
            f"the option {named[0]} has no meaning in a streaming query, which has no end",
            "Leave it out; trigger(availableNow=True) stops at what is there when the query starts.",
        )
    found = _times(given, fields, "endingTimestamp", "endingOffsetsByTimestamp", False)
    if found is not None:
        return found
    end = _offsets(given, "endingOffsets", LATEST)
    if end.uses(EARLIEST):
        raise SettingsError(
            "the option endingOffsets cannot be earliest, where there is nothing to read",
            "Name an offset or latest (-1).",
        )
    return end


def _times(
    given: Mapping[str, str], fields: OptionFields, everywhere: str, each: str, must_be_found: bool
) -> AtTimes | None:
    time_ms = fields.time_ms(everywhere)
    if time_ms is not None:
        return AtTimes(everywhere, time_ms, must_be_found=must_be_found)
    if each.lower() in given:
        return AtTimes(each, by_place=read_json(each, given[each.lower()]), must_be_found=must_be_found)
    return None


def _offsets(given: Mapping[str, str], name: str, default: int) -> AtOffsets:
    text = given.get(name.lower())
    if text is None:
        return AtOffsets(default)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return AtOffsets(EARLIEST if word == "earliest" else LATEST)
    by_place = read_json(name, text)
    if any(offset < EARLIEST for _, offset in by_place):
        raise SettingsError(f"the option {name} names an offset below -2", "-2 means the earliest record, -1 the end.")
    return AtOffsets(by_place=by_place)
