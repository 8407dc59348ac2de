"""What can be told of a pipeline before Spark starts, beyond how its parts fit together: addresses, and schemas with their columns.

Gaps
    Schemas of Avro and Protobuf, and those of a registry, are first read by the run; so are expressions in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final

from catchment.client.errors import ClientError
from catchment.pipelines.addresses import check_lake_address, check_store_address
from catchment.pipelines.alerts import mail, webhook
from catchment.pipelines.execution.decoding import is_file
from catchment.pipelines.mistakes import Path
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
    yield from _columns(specification, folder)


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


def _columns(specification: PipelineSpecification, folder: FilePath) -> Found:
    """Schemas that cannot be read, and columns that a schema does not have."""
    known: dict[str, StructType] = {}
    for kind, topics in (("sources", specification.sources), ("tables", specification.tables)):
        for name, topic in topics.items():
            try:
                columns = _schema(topic, folder)
            except ClientError as error:
                yield (kind, name, "schema"), f"{kind}.{name}.schema: {error}"
                continue
            if columns is not None:
                known[name] = columns
    for name, source in specification.sources.items():
        if name in known and source.event_time is not None:
            yield from _event_time(("sources", name, "event_time"), source.event_time, known[name])
    for name, table in specification.tables.items():
        yield from _missing(("tables", name, "key"), table.key, known.get(name))
    for name, stage in specification.stages.items():
        read = [known.get(one) for one in stage.from_ if one in specification.sources]
        if len(read) == 1:
            yield from _missing(("stages", name, "dedupe"), stage.dedupe, read[0])
            if stage.to is not None and not stage.has_code:
                yield from _missing(("stages", name, "to", "key"), stage.to.key, read[0])


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

    from catchment.spark.formats import json_schema

    parsed = json_schema.parse(text, {})
    return parsed if isinstance(parsed, StructType) else None


def _event_time(path: Path, name: str, columns: StructType) -> Found:
    yield from _missing(path, (name,), columns)
    if name in columns.names and (kind := columns[name].dataType.simpleString()) != "timestamp":
        yield path, f"{_named(path)}: {name} is a {kind}. Declare it as timestamp: text as in ISO 8601 is read as one."


def _missing(path: Path, wanted: tuple[str, ...], columns: StructType | None) -> Found:
    for name in wanted if columns is not None else ():
        if columns is not None and name not in columns.names:
            yield path, f"{_named(path)}: the schema has no column {name}; it has {', '.join(columns.names)}"


def _refused(path: Path, attempt: Callable[[], object]) -> Found:
    try:
        attempt()
    except ClientError as error:
        yield path, f"{_named(path)}: {error}"


def _named(path: Path) -> str:
    return ".".join(map(str, path))
