"""The options of the source, by the names that Spark's own Kafka source gives them, checked as a whole.

Spark does not heed upper and lower case in the names of options, and neither does this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from catchment.client.errors import SettingsError
from catchment.client.offsets import EARLIEST, LATEST
from catchment.spark.connection import Connection, kafka_settings
from catchment.spark.formats.format_options import OPTION_NAMES
from catchment.spark.option_mistakes import OptionMistakes, misspelt_names
from catchment.spark.positions import AtOffsets, AtTimes, Position, read_json
from catchment.spark.topic_selection import TopicSelection

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
DEFAULT_METADATA_AGE_S: Final = 1.0
DEFAULT_GROUP_PREFIX: Final = "catchment-spark"

_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_SIZE: Final = re.compile(r"\s*(\d+)\s*([kmgt]?)b?\s*")
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_UNITS_S: Final = {"ms": 0.001, "": 0.001, "s": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0}
_LONGER_UNITS_S: Final = {"h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0}


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
        """SettingsError tells all that is wrong at once.

        `streaming` is None as long as it is not known; what depends on it is not checked then.
        """
        given = {name.lower(): str(value) for name, value in options.items()}
        mistakes = OptionMistakes(misspelt_names(options, (*SOURCE_OPTIONS, *OPTION_NAMES)))
        fields = _Fields(given, mistakes)
        kafka = kafka_settings(options)
        most = None if given.get("maxoffsetspertrigger", "").lower() == AUTO else fields.count("maxOffsetsPerTrigger")
        least = fields.count("minOffsetsPerTrigger")
        if most is not None and least is not None and least > most:
            mistakes.add(
                f"minOffsetsPerTrigger ({least}) is more than maxOffsetsPerTrigger ({most})",
                "Lower it, or raise the other.",
            )
        is_auto = given.get("maxoffsetspertrigger", "").lower() == AUTO
        beginning: Position = AtOffsets(EARLIEST)
        ending: Position = AtOffsets(LATEST)
        read = cls(
            connection=mistakes.tried(lambda: Connection.read(options), Connection("")),
            selection=mistakes.tried(lambda: TopicSelection.read(given), TopicSelection()),
            start=mistakes.tried(lambda: _start(given, fields, streaming), beginning),
            end=mistakes.tried(lambda: _end(given, fields, streaming), ending),
            fail_on_data_loss=fields.flag("failOnDataLoss", True),
            include_headers=fields.flag("includeHeaders", False),
            read_committed=_is_committed(kafka, mistakes),
            min_partitions=fields.count("minPartitions"),
            max_records_per_partition=fields.count("maxRecordsPerPartition"),
            max_offsets_per_trigger=most,
            target_batch_s=fields.seconds("targetBatchSeconds", DEFAULT_TARGET_S, "s") if is_auto else None,
            max_bytes_per_trigger=fields.size_bytes("maxBytesPerTrigger"),
            min_offsets_per_trigger=least,
            max_trigger_delay_s=fields.seconds("maxTriggerDelay", DEFAULT_DELAY_S, ""),
            group_id=kafka.get("group.id"),
            group_prefix=given.get("groupidprefix", DEFAULT_GROUP_PREFIX),
            metadata_age_s=_metadata_age_s(kafka, mistakes),
            watermark_from=given.get("watermarkfrom"),
            note_topics=tuple(name.strip() for name in given.get("notetopics", "").split(",") if name.strip()),
            batch_at_start=fields.flag("batchAtStart", False),
            admits_by_time=fields.choice("admission", ("offsets", "timestamp")) == "timestamp",
            admit_up_to=given.get("admitupto"),
        )
        mistakes.raise_any()
        return read


class _Fields:
    """Single options, each read with its own check."""

    def __init__(self, given: Mapping[str, str], mistakes: OptionMistakes) -> None:
        self._given = given
        self._mistakes = mistakes

    def count(self, name: str) -> int | None:
        text = self._given.get(name.lower())
        if text is None:
            return None
        if not text.strip().isdecimal() or int(text) == 0:
            extra = f", or {AUTO}" if name == "maxOffsetsPerTrigger" else ""
            self._mistakes.add(f"the option {name} cannot be {text!r}", f"Give a whole number above 0{extra}.")
            return None
        return int(text)

    def size_bytes(self, name: str) -> int | None:
        text = self._given.get(name.lower())
        if text is None:
            return None
        found = _SIZE.fullmatch(text.lower())
        if found is None or int(found[1]) == 0:
            self._mistakes.add(
                f"the option {name} cannot be {text!r}", 'Give a size, such as "1048576", "64m" or "1g".'
            )
            return None
        return int(found[1]) << _SHIFTS[found[2]]

    def flag(self, name: str, default: bool) -> bool:
        text = self._given.get(name.lower(), str(default)).strip().lower()
        if text not in ("true", "false"):
            self._mistakes.add(f"the option {name} cannot be {text!r}", "Say true or false.")
        return text == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of several words; the first is the default."""
        text = self._given.get(name.lower(), choices[0]).strip().lower()
        if text not in choices:
            self._mistakes.add(f"the option {name} cannot be {text!r}", f"Choose {' or '.join(choices)}.")
        return text

    def seconds(self, name: str, default_s: float, default_unit: str) -> float:
        text = self._given.get(name.lower())
        if text is None:
            return default_s
        found = _DURATION.fullmatch(text.lower())
        unit = found[2] or default_unit if found else ""
        units_s = _UNITS_S | _LONGER_UNITS_S
        scale_s = units_s.get(unit, units_s.get(unit.removesuffix("s"))) if found else None
        if found is None or scale_s is None or float(found[1]) == 0:
            self._mistakes.add(f"the option {name} cannot be {text!r}", 'Give a time, such as "500ms", "2s" or "15m".')
            return default_s
        return float(found[1]) * scale_s

    def time_ms(self, name: str) -> int:
        text = self._given[name.lower()].strip()
        if not text.isdecimal():
            raise SettingsError(
                f"the option {name} cannot be {text!r}",
                "Give a time in milliseconds since 1970, such as 1735689600000.",
            )
        return int(text)


def _start(given: Mapping[str, str], fields: _Fields, streaming: bool | None) -> Position:
    """A time for all is stronger than times for each, and those than offsets, as with Spark's own source."""
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise SettingsError(
            f"the option startingOffsetsByTimestampStrategy cannot be {strategy!r}", "Choose error or latest."
        )
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


def _end(given: Mapping[str, str], fields: _Fields, streaming: bool | None) -> Position:
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
    given: Mapping[str, str], fields: _Fields, everywhere: str, each: str, must_be_found: bool
) -> AtTimes | None:
    if everywhere.lower() in given:
        return AtTimes(everywhere, fields.time_ms(everywhere), must_be_found=must_be_found)
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


def _is_committed(kafka: Mapping[str, str], mistakes: OptionMistakes) -> bool:
    level = kafka.get("isolation.level", "read_uncommitted").lower()
    if level not in ("read_committed", "read_uncommitted"):
        mistakes.add(
            f"the option kafka.isolation.level cannot be {level!r}", "Choose read_committed or read_uncommitted."
        )
    return level == "read_committed"


def _metadata_age_s(kafka: Mapping[str, str], mistakes: OptionMistakes) -> float:
    text = kafka.get("metadata.max.age.ms")
    if text is None:
        return DEFAULT_METADATA_AGE_S
    if not text.isdecimal():
        mistakes.add(f"the option kafka.metadata.max.age.ms cannot be {text!r}", "Give a number of milliseconds.")
        return DEFAULT_METADATA_AGE_S
    return int(text) / 1000
