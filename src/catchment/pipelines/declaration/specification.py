"""What a pipeline is made of, as its author declares it: the one form behind Python and YAML.

Keys are those of the YAML form. Nothing here depends on Spark; `graph` decides which queries the declarations become.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from catchment.pipelines.declaration.durations import DurationMs

RowFormat = Literal["avro", "json"]
NEW_ROWS: Final[RowFormat] = "avro"
"""The format of a new topic, unless its author asks for another."""
OLD_ROWS: Final[RowFormat] = "json"
"""The format of a topic from before there was a choice."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
DEFAULT_AHEAD_MS: Final = 600_000
DEFAULT_TRIGGER_MS: Final = 200
DEFAULT_LAKE_EVERY_MS: Final = 5_000


@dataclass(frozen=True)
class WrittenRows:
    """What a topic holds that a query continues to write."""

    format: RowFormat
    schemas: tuple[str, ...] = ()
    """The Avro schemas that rows in it may have been written with."""


def _as_name(name: Any) -> Any:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: letters, digits, _ and -, beginning with a letter, at most 63")
    return name


def _as_topic(name: Any) -> Any:
    if not isinstance(name, str) or not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError(f"{name!r} is no name of a topic: letters, digits, dot, _ and -, at most 249")
    return name


def _as_list(one: Any) -> Any:
    return (one,) if isinstance(one, str | dict) else one


def _as_fraction(share: Any) -> Any:
    if isinstance(share, str) and share.strip().endswith("%"):
        return float(share.strip()[:-1]) / 100
    return share


Name = Annotated[str, BeforeValidator(_as_name)]
TopicName = Annotated[str, BeforeValidator(_as_topic)]
Columns = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Fraction = Annotated[float, BeforeValidator(_as_fraction), Field(ge=0, le=1)]
Format = Literal["json", "csv", "avro", "protobuf", "text"]
OnError = Literal["fail", "quarantine", "drop"]
Start = Literal["earliest", "latest"]
Otherwise = Literal["quarantine", "drop", "stop"]
Mode = Literal["append", "update"]
LakeFormat = Literal["delta", "parquet"]
AlertTrigger = Literal["micro-batch", "realtime"]


class Declaration(BaseModel):
    """Unknown keys are mistakes: most of them are known ones misspelt."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class TopicIn(Declaration):
    """A topic that is read, and how its records are decoded."""

    topic: TopicName
    format: Format = "json"
    schema_: str | None = Field(default=None, alias="schema")
    """Columns in Spark's notation, a schema in the format's own, a file that holds one, or none with a registry."""
    registry: str | None = None
    """The address of a schema registry."""
    message: str | None = None
    """Protobuf: which message of the schema."""
    delimiter: str | None = None
    """CSV: what separates the columns."""
    on_error: OnError = "fail"
    """What happens to a record that does not decode."""

    @model_validator(mode="after")
    def _has_schema(self) -> TopicIn:
        if self.format != "text" and self.schema_ is None and self.registry is None:
            raise ValueError(f"format {self.format} needs a schema, or a registry that has it")
        return self


class Source(TopicIn):
    """A stream of events."""

    event_time: str | None = None
    lateness: DurationMs | None = None
    """How much later than the newest an event may come."""
    ahead: DurationMs = DEFAULT_AHEAD_MS
    """How far an event may be ahead of its record's own time: further, and its clock is wrong."""
    start: Start = "earliest"

    @model_validator(mode="after")
    def _times_belong_together(self) -> Source:
        if (self.event_time is None) != (self.lateness is None):
            raise ValueError("event_time and lateness belong together: give both or neither")
        return self


class Table(TopicIn):
    """A compacted topic as a table: the last value of each key."""

    key: Columns


class Check(Declaration):
    """What must hold of a row, in SQL, and what happens to the row otherwise."""

    expect: str
    otherwise: Otherwise = "quarantine"
    stop_above: Fraction | None = None
    """Stop the pipeline when a larger share of the rows fails."""


class TopicOut(Declaration):
    """A topic that is written, a JSON object a row."""

    topic: TopicName
    key: Columns = ()
    partitions: int | None = Field(default=None, ge=1, le=10_000)


class StageTopic(TopicOut):
    """The topic of a stage, with a name of its own."""

    format: RowFormat | None = None
    """JSON for readers outside of the pipeline; otherwise Avro, which carries every type."""


class Stage(Declaration):
    """Rows from rows."""

    from_: Annotated[tuple[Name, ...], BeforeValidator(_as_list)] = Field(alias="from", min_length=1)
    dedupe: Columns = ()
    checks: Annotated[tuple[Check, ...], BeforeValidator(_as_list)] = ()
    sql: str | None = None
    function: Callable[..., Any] | None = Field(default=None, exclude=True)
    mode: Mode = "append"
    key: Columns = ()
    """The columns that identify a row of the result: a later row replaces an earlier one."""
    event_time: str | None = None
    """The column of the result that later stages take for the time of its rows."""
    lateness: DurationMs | None = None
    """How much later than the newest a row of the result may come; by default as late as what it reads."""
    to: StageTopic | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Stage:
        if self.sql is not None and self.function is not None:
            raise ValueError("a stage has SQL or a function, not both")
        if self.mode == "update" and not self.key:
            raise ValueError("mode update needs a key: the columns that identify a row")
        return self

    @property
    def has_code(self) -> bool:
        return self.sql is not None or self.function is not None


class StoreSink(Declaration):
    """The real-time store: SQLite, PostgreSQL or Redis."""

    name: Name | None = None
    from_: Name = Field(alias="from")
    store: str
    table: Name
    key: Columns = ()
    ttl: DurationMs | None = None
    window_end: str | None = None
    """The column that separates the batch layer from the speed layer; `end` if there is one."""


class LakeSink(Declaration):
    """The for-ever store: a Delta table, or Parquet files."""

    name: Name | None = None
    from_: Name = Field(alias="from")
    lake: str
    format: LakeFormat = "delta"
    partition_by: Columns = ()
    every: DurationMs = DEFAULT_LAKE_EVERY_MS


class TopicSink(TopicOut):
    """One more topic."""

    name: Name | None = None
    from_: Name = Field(alias="from")


class Webhook(Declaration):
    """An address that receives alerts by POST."""

    webhook: str


class Mail(Declaration):
    """An address that receives alerts by mail, through the SMTP server of the pipeline."""

    mail: str


def _kind(one: Any, kinds: tuple[str, ...]) -> str:
    """Which kind a mapping is, by the key that only that kind has."""
    for kind in kinds:
        if (kind in one) if isinstance(one, dict) else hasattr(one, kind):
            return kind
    return kinds[0]


Sink = Annotated[
    Annotated[StoreSink, Tag("store")] | Annotated[LakeSink, Tag("lake")] | Annotated[TopicSink, Tag("topic")],
    Discriminator(lambda one: _kind(one, ("store", "lake", "topic"))),
]
AlertTarget = Annotated[
    Annotated[TopicOut, Tag("topic")] | Annotated[Webhook, Tag("webhook")] | Annotated[Mail, Tag("mail")],
    Discriminator(lambda one: _kind(one, ("topic", "webhook", "mail"))),
]


class Alert(Declaration):
    """A response to rows that satisfy a condition, or to keys that have become silent."""

    from_: Name = Field(alias="from")
    when: str | None = None
    absent_for: DurationMs | None = None
    key: Columns = Field(min_length=1)
    cooldown: DurationMs = 0
    message: str | None = None
    """What people read, with columns in braces: `{district}: {count} reports`."""
    trigger: AlertTrigger = "micro-batch"
    to: Annotated[tuple[AlertTarget, ...], BeforeValidator(_as_list)] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_one_condition(self) -> Alert:
        if (self.when is None) == (self.absent_for is None):
            raise ValueError("an alert has either `when` or `absent_for`")
        return self


class PipelineSpecification(Declaration):
    """A whole pipeline."""

    pipeline: Name
    version: int = Field(default=1, ge=1)
    parallelism: int | None = Field(default=None, ge=1, le=10_000)
    """How many partitions the topics between stages have; by default as many as the machine has cores."""
    servers: str | None = None
    kafka: dict[str, str] = Field(default_factory=dict)
    """Settings of the connection to the brokers, such as `security.protocol`."""
    trigger: DurationMs = DEFAULT_TRIGGER_MS
    retention: DurationMs | None = None
    """How long quarantined and late records and alerts are kept; for ever by default."""
    smtp: str | None = None
    sources: dict[Name, Source] = Field(default_factory=dict)
    tables: dict[Name, Table] = Field(default_factory=dict)
    stages: dict[Name, Stage] = Field(default_factory=dict)
    sinks: tuple[Sink, ...] = ()
    alerts: dict[Name, Alert] = Field(default_factory=dict)
