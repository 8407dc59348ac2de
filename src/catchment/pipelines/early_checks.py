"""What can be told of a pipeline before Spark starts, beyond how its parts fit together: addresses, and schemas with their columns.

Gaps
    Schemas of Avro and Protobuf, and those of a registry, are first read when the pipeline is planned, and so is what a stage's code
    gives. Of expressions in SQL, only plain conditions are judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final

from catchment.client.errors import ClientError
from catchment.pipelines import column_checks
from catchment.pipelines.addresses import check_lake_address, check_store_address
from catchment.pipelines.alerts import mail, webhook
from catchment.pipelines.declared_columns import DeclaredColumns
from catchment.pipelines.execution.decoding import is_file
from catchment.pipelines.mistakes import Finding, Path, dotted
from catchment.pipelines.naming import is_source_stage
from catchment.pipelines.secrets import has_variables, with_known_variables
from catchment.pipelines.specification import Alert, LakeSink, Mail, PipelineSpecification, StoreSink, TopicIn, Webhook

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Found = Iterator[tuple[Path, str]]
_SOMEBODY: Final = "somebody@example.org"
_SERVER: Final = "smtp://example.org"


def foreseen(specification: PipelineSpecification, folder: FilePath) -> Found:
    """What would fail once it runs, with the keys that lead to it; `folder` is what paths are relative to."""
    for number, sink in enumerate(specification.sinks):
        if isinstance(sink, StoreSink):
            yield from _address(("sinks", number, "store"), sink.store, check_store_address)
        elif isinstance(sink, LakeSink):
            yield from _address(("sinks", number, "lake"), sink.lake, check_lake_address)
    for name, alert in specification.alerts.items():
        yield from _targets(name, alert, has_server=specification.smtp is not None)
    if specification.smtp is not None:
        yield from _when_known(("smtp",), specification.smtp, lambda server: mail.Mail(_SOMEBODY, server))
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
            yield from _when_known((*path, "webhook"), target.webhook, webhook.Webhook)
        elif isinstance(target, Mail):
            yield from _when_known((*path, "mail"), target.mail, lambda address: mail.Mail(address, server))


def _when_known(path: Path, written: str, make: Callable[[str], object]) -> Found:
    """What who is told says of an address, unless a part of it is not known yet."""
    address = with_known_variables(written)
    if not has_variables(address):
        yield from _refused(path, lambda: make(address))


def unknown_columns(specification: PipelineSpecification, folder: FilePath) -> Iterator[Finding]:
    """Columns that are not there, as far as the file itself says which are: those of sources and tables, and of stages that only clean."""
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
    """The columns of a topic; None if only the run can tell."""
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
