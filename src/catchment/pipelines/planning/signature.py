"""What a query's checkpoint depends on, in words that can be compared and shown: its signature."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from catchment.pipelines.declaration.specification import OLD_ROWS, RowFormat, WrittenRows

QueryKind = Literal["intake", "step", "outlet"]


class Fact(BaseModel):
    """Known keys only: a file of a newer version of Catchment is refused, not half understood."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Part(Fact):
    """One thing that an operator's state consists of: `key district`, and what it is: `string`."""

    name: str
    what: str


class Operator(Fact):
    """An operator that remembers rows between batches."""

    kind: str
    parts: tuple[Part, ...]
    """In the order in which the state has them."""


class Target(Fact):
    """Where the rows of a query go."""

    name: str
    """As its author knows it: `lake lake/reports`."""
    place: str
    """The same for the same place, however it is written: a digest, for addresses have secrets in them."""
    stage: str
    """The stage whose rows they are."""
    has_versions: bool
    """Whether what starts from scratch writes beside the old there: a version of a table, or of a topic between queries."""


class Signature(Fact):
    """All that must not change under a checkpoint."""

    kind: QueryKind
    reads: tuple[str, ...]
    """The topics of its streams, whose offsets the checkpoint holds."""
    upstream: tuple[str, ...] = ()
    """The queries that write these topics, as far as they are the pipeline's own."""
    mode: str = "append"
    state: tuple[Operator, ...] = ()
    uses: tuple[str, ...] = ()
    """Columns of what it reads that its state is made of."""
    columns: dict[str, str] = Field(default_factory=dict)
    """The columns of the result with their types."""
    required: tuple[str, ...] = ()
    """Those of a store's table that are never null: its older rows could not have a new one of them."""
    event_time: str | None = None
    """The column of the result by which later queries find out which rows are late, and"""
    lateness_ms: int = 0
    """how late that may be."""
    target: Target | None = None
    """Alerts have none: their log says what has fired."""
    rows_as: RowFormat | None = None
    """Of the topic of a stage: as it is written now, what its author asks for; of a checkpoint, what the topic holds. Checkpoints
    from before there was a choice say nothing, and their topics hold JSON."""
    row_schema: str | None = None
    """The Avro schema that rows in the topic of a stage have, unless they are JSON."""

    @model_validator(mode="after")
    def _has_target(self) -> Signature:
        if self.kind == "outlet" and self.columns and self.target is None:
            raise ValueError("a sink has a target")
        return self


class Current(Fact):
    """A pipeline as it is written now."""

    version: int
    queries: dict[str, Signature]


class Made(Fact):
    """A checkpoint, and what made it."""

    checkpoint_version: int
    pipeline_version: int
    """The pipeline's when the checkpoint was made: a higher one may start from scratch."""
    signature: Signature
    upstream_versions: dict[str, int] = Field(default_factory=dict)
    """The checkpoints of the queries that it reads, each of which writes to a topic of its own."""
    earlier_places: tuple[str, ...] = ()
    """Where it wrote to before its target was another."""
    earlier_schemas: tuple[str, ...] = ()
    """The Avro schemas that rows in its topic have from before its columns were others."""

    @property
    def places(self) -> set[str]:
        """All that it has written to."""
        return {*self.earlier_places, *([self.signature.target.place] if self.signature.target else [])}

    @property
    def rows(self) -> WrittenRows:
        """What its topic holds."""
        now = (self.signature.row_schema,) if self.signature.row_schema is not None else ()
        return WrittenRows(self.signature.rows_as or OLD_ROWS, (*now, *self.earlier_schemas))


class Kept(Fact):
    """Every checkpoint that a pipeline has made, the oldest of each query first."""

    pipeline: str
    queries: dict[str, tuple[Made, ...]] = Field(default_factory=dict)

    def made(self, query: str, pipeline_version: int) -> Made | None:
        """The checkpoint that a version of the pipeline goes on with: going back a version goes back to its state."""
        made = self.queries.get(query, ())
        fitting = [one for one in made if one.pipeline_version <= pipeline_version] or made
        return fitting[-1] if fitting else None
