"""Checks before Spark starts, beyond how the parts of a pipeline fit together: addresses, and schemas with their columns.

Gaps
    Schemas of Avro and Protobuf, and those of a registry, are first read when the pipeline is planned, and so are the columns that a
    stage's code returns. Of SQL, only plain conditions are checked here: columns compared with values and with one another. A word in
    any other expression may be a unit of time, the parameter of a lambda or a function without brackets. Spark resolves those in a plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final

from catchment.client.errors import ClientError
from catchment.pipelines.alerts.channels import MailChannel, WebhookChannel
from catchment.pipelines.checks import columns as column_checks
from catchment.pipelines.checks.columns import BadExpression, no_column
from catchment.pipelines.declaration.addresses import (
    check_lake_address,
    check_store_address,
    has_variables,
    with_known_variables,
)
from catchment.pipelines.declaration.specification import (
    Alert,
    LakeSink,
    Mail,
    PipelineSpecification,
    StoreSink,
    TopicIn,
    Webhook,
)
from catchment.pipelines.errors import Finding, Path, dotted
from catchment.pipelines.execution.rows.decoding import is_file
from catchment.pipelines.naming import is_source_stage

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType
    from sqlglot import exp

_CALL: Final = re.compile(r"\w+\(\s*(\w+)\s*\)", re.ASCII)
_CONDITIONS: Final = ("And", "Or", "Not", "Is", "In", "Between", "Like", "RegexpLike")
_COMPARISONS: Final = ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ")
_ARITHMETIC: Final = ("Neg", "Add", "Sub", "Mul", "Div", "Mod")
_VALUES: Final = ("Paren", "Null", "Boolean", "Literal", "Column", "Identifier")
_PLAIN: Final = frozenset((*_CONDITIONS, *_COMPARISONS, *_ARITHMETIC, *_VALUES))
_CONSTANTS: Final = frozenset(("user", "session_user", "current_user", "current_database", "localtimestamp"))
"""Functions that Spark lets stand without brackets, where sqlglot takes them for columns."""
Found = Iterator[tuple[Path, str]]
_ANY_ADDRESS: Final = "anyone@example.org"
_SERVER: Final = "smtp://example.org"


@dataclass(frozen=True)
class DeclaredColumns:
    """The columns of a source's schema; serves as `Columns`."""

    owner: str
    schema: StructType

    def kind(self, expression: str) -> DataType | None:
        """Unknown; but a function of one column has to find it."""
        if (call := _CALL.fullmatch(expression.strip())) is not None and not call[1].isdecimal():
            self._require(call[1])
        return None

    def check_condition(self, expression: str) -> None:
        tree = _parsed(expression)
        if tree is None:
            return
        for one in tree.find_all(_column_type()):
            self._require(one.parts[0].name)
        if type(tree).__name__ in _ARITHMETIC:
            raise BadExpression("this is a value, not a condition: compare it with something")

    def _require(self, name: str) -> None:
        known = {one.lower() for one in self.schema.names}
        if name.lower() not in known and name.lower() not in _CONSTANTS:
            raise BadExpression(no_column(self.owner, name, self.schema.names))


def _parsed(expression: str) -> exp.Expr | None:
    """The expression, if it is a plain one."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        # By itself, an expression whose first column is named as a command, such as `load > 1`, would be read as that command.
        query = sqlglot.parse_one(f"SELECT * WHERE ({expression})", read="spark")
    except SqlglotError:
        return None
    tree: exp.Expr = query.args["where"].this.unnest()
    return tree if all(type(one).__name__ in _PLAIN for one in tree.walk()) else None


def _column_type() -> type[exp.Column]:
    from sqlglot import exp

    return exp.Column


def early_mistakes(specification: PipelineSpecification, folder: FilePath) -> Found:
    """What would fail once it runs, with the keys that lead to it; `folder` is what paths are relative to."""
    for number, sink in enumerate(specification.sinks):
        if isinstance(sink, StoreSink):
            yield from _address(("sinks", number, "store"), sink.store, check_store_address)
        elif isinstance(sink, LakeSink):
            yield from _address(("sinks", number, "lake"), sink.lake, check_lake_address)
    for name, alert in specification.alerts.items():
        yield from _targets(name, alert, has_server=specification.smtp is not None)
    if specification.smtp is not None:
        yield from _when_known(("smtp",), specification.smtp, lambda server: MailChannel(_ANY_ADDRESS, server))
    if specification.retention is not None and specification.retention <= 0:
        yield ("retention",), f"retention: {specification.retention} ms would keep nothing; leave it out to keep all"
    yield from _schemas(specification, folder)


def _address(path: Path, written: str, check: Callable[[str], None]) -> Found:
    address = with_known_variables(written)
    if not address.startswith("${"):
        yield from _refused(path, lambda: check(address))


def _targets(name: str, alert: Alert, *, has_server: bool) -> Found:
    server = _SERVER if has_server else None
    for number, target in enumerate(alert.to):
        path: Path = ("alerts", name, "to", number)
        if isinstance(target, Webhook):
            yield from _when_known((*path, "webhook"), target.webhook, WebhookChannel)
        elif isinstance(target, Mail):
            yield from _when_known((*path, "mail"), target.mail, lambda address: MailChannel(address, server))


def _when_known(path: Path, written: str, make: Callable[[str], object]) -> Found:
    """What the receiver of alerts finds wrong with an address, unless a part of it is not known yet."""
    address = with_known_variables(written)
    if not has_variables(address):
        yield from _refused(path, lambda: make(address))


def unknown_columns(specification: PipelineSpecification, folder: FilePath) -> Iterator[Finding]:
    """Columns that do not exist, as far as the file itself says which do: those of sources and tables, and of stages that only clean."""
    known: dict[str, DeclaredColumns] = {}
    for name, source in specification.sources.items():
        if (columns := _readable(source, folder)) is not None:
            known[name] = DeclaredColumns(f"source {name}", columns)
            yield from column_checks.of_source(name, source, known[name])
    for name, table in specification.tables.items():
        if (columns := _readable(table, folder)) is not None:
            yield from column_checks.of_table(name, table, DeclaredColumns(f"table {name}", columns))
    for name, stage in specification.stages.items():
        read = [known.get(one) for one in stage.from_ if one in specification.sources]
        if len(read) == 1 and read[0] is not None:
            yield from column_checks.of_cleaning(name, stage, read[0])
            if is_source_stage(specification, stage):
                known[name] = DeclaredColumns(f"stage {name}", read[0].schema)
                yield from column_checks.of_result(name, stage, known[name])
    for number, sink in enumerate(specification.sinks):
        if sink.from_ in known:
            yield from column_checks.of_sink(number, sink, known[sink.from_])
    for name, alert in specification.alerts.items():
        if alert.from_ in known:
            yield from column_checks.of_alert(name, alert, known[alert.from_])


def _schemas(specification: PipelineSpecification, folder: FilePath) -> Found:
    """Schemas that cannot be read."""
    for kind, topics in (("sources", specification.sources), ("tables", specification.tables)):
        for name, topic in topics.items():
            try:
                _schema(topic, folder)
            except ClientError as error:
                yield (kind, name, "schema"), f"{kind}.{name}.schema: {error}"


def _readable(topic: TopicIn, folder: FilePath) -> StructType | None:
    try:
        return _schema(topic, folder)
    except ClientError:
        return None


def _schema(topic: TopicIn, folder: FilePath) -> StructType | None:
    """The columns of a topic; None if only a plan finds them."""
    if topic.schema_ is None:
        return None
    text = topic.schema_
    if is_file(text):
        try:
            content = (folder / text).read_bytes()
        except OSError as error:
            raise ClientError(f"the file {folder / text} cannot be read: {error.strerror}") from error
        text = content.decode(errors="replace")
    if topic.format not in ("json", "csv"):
        return None
    # PySpark takes a moment to load; it starts no Java.
    from pyspark.sql.types import StructType

    from catchment.spark.formats.json import schema as json_schema

    parsed = json_schema.parse(text, {})
    return parsed if isinstance(parsed, StructType) else None


def _refused(path: Path, attempt: Callable[[], object]) -> Found:
    try:
        attempt()
    except ClientError as error:
        yield path, f"{dotted(path)}: {error}"
