"""From options to a decoder, on the driver: the schema is parsed, or fetched from the registry, once for the whole query.

The planning process of every streaming query runs this. So a format is imported only where it is used: Avro's loops import a compiler,
which takes longer to load than everything else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from catchment.client.errors import SettingsError
from catchment.spark.formats.csv_text import CsvDecoder, check_csv
from catchment.spark.formats.decoder import Decoder
from catchment.spark.formats.format_options import SINGLE_OBJECT, FormatOptions
from catchment.spark.formats.json import schema as json_schema
from catchment.spark.formats.json.decoder import JsonDecoder
from catchment.spark.formats.json.values import converter
from catchment.spark.formats.payloads import Payloads
from catchment.spark.formats.registry import Registry, UnknownSchema
from catchment.spark.formats.rows.decoding import RowDecoder
from catchment.spark.formats.rows.schema import spark_schema_of
from catchment.spark.formats.text import TextDecoder

_REGISTRY_KINDS: Final = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}


class Source(NamedTuple):
    """Where the schema of a column comes from: its text, what that refers to by name, and its id if it is registered."""

    text: str
    references: tuple[tuple[str, str], ...]
    schema_id: int | None
    registry: Registry | None


def load_decoder(
    options: FormatOptions, format_name: str, query_options: Mapping[str, str], topics: Sequence[str]
) -> Decoder:
    """The decoder of one column."""
    if format_name in ("string", "text"):
        _refuse_schema_of_text(options)
        return TextDecoder()
    if format_name == "csv":
        return _load_csv(options)
    if options.framing == SINGLE_OBJECT:
        return _load_rows(options)
    source = _source(options, Registry.read(query_options), topics)
    framed = options.framing == "confluent" or (options.framing is None and source.registry is not None)
    decoder: Decoder
    if format_name == "avro":
        from catchment.spark.formats.avro.decoder import AvroDecoder, AvroSchema

        schema = AvroSchema(source.text, tuple(text for _, text in source.references))
        decoder = AvroDecoder(schema, framed, source.schema_id, source.registry)
        # Its loops are compiled here, once for this machine, rather than in all tasks at the same time.
        decoder.decode(Payloads.of(pa.array([], pa.binary())))
    elif format_name == "json":
        decoder = JsonDecoder(json_schema.parse(source.text, dict(source.references)), framed)
        converter(decoder.data_type)
    else:
        from catchment.spark.formats.protobuf import schema as protobuf_schema
        from catchment.spark.formats.protobuf.decoder import ProtobufDecoder

        descriptors = protobuf_schema.compiled(source.text, dict(source.references))
        message = protobuf_schema.message_name(descriptors, options.message)
        decoder = ProtobufDecoder(
            descriptors, message, options.emit_default_values, framed, source.schema_id, source.registry
        )
    # Whether the schema has a type is found out here, on the driver, and not in the first task.
    _ = decoder.data_type
    return decoder


def _load_csv(options: FormatOptions) -> Decoder:
    if options.schema is None or options.framing == "confluent":
        raise SettingsError(
            f"{options.column}Format is csv, which needs a schema of its own and has no frames",
            f'Set {options.column}Schema, such as to "id bigint, name string", and leave {options.column}Framing out.',
        )
    data_type = json_schema.parse(options.schema, {})
    columns = check_csv(data_type, options.csv_delimiter, options.csv_quote)
    return CsvDecoder(columns, options.csv_delimiter, options.csv_quote)


def _load_rows(options: FormatOptions) -> Decoder:
    """Rows of Spark, by the schemas that the sink writes such rows with."""
    column = options.column
    if options.format != "avro" or options.schema is None:
        raise SettingsError(
            f"{column}Framing is {SINGLE_OBJECT}, which is for avro with a schema of its own",
            f"Set {column}Format to avro and {column}Schema to the schema that the rows were written with.",
        )
    try:
        earlier = json.loads(options.earlier_schemas or "[]")
    except ValueError:
        earlier = None
    if not isinstance(earlier, list) or not all(isinstance(one, str) for one in earlier):
        raise SettingsError(
            f"the option {column}EarlierSchemas is no JSON array of schemas", "Give each schema as a string in it."
        )
    decoder = RowDecoder((options.schema, *earlier))
    for schema in decoder.schemas:
        spark_schema_of(schema)
    return decoder


def _refuse_schema_of_text(options: FormatOptions) -> None:
    if options.schema is not None or options.framing == "confluent":
        raise SettingsError(
            f"{options.column}Format is {options.format}, which has neither a schema nor frames",
            f"Leave {options.column}Schema and {options.column}Framing out, or choose another format.",
        )


def _source(options: FormatOptions, registry: Registry | None, topics: Sequence[str]) -> Source:
    column = options.column
    if options.schema is not None:
        return Source(options.schema, (), None, registry)
    if registry is None:
        raise SettingsError(
            f"{column}Format is {options.format}, but there is no schema",
            f"Set {column}Schema or {column}SchemaFile, or schemaRegistry to the URL of a registry.",
        )
    subject = options.subject or _subject_of_topic(column, topics)
    if options.version != "latest" and not options.version.isdecimal():
        raise SettingsError(f"the option {column}SchemaVersion is {options.version!r}", "Set it to latest or a number.")
    try:
        registered = registry.version(subject, options.version)
    except UnknownSchema:
        raise SettingsError(
            f"the registry {registry.url} has no version {options.version} of the subject {subject}",
            f"Register it, or set {column}Subject and {column}SchemaVersion to what is there.",
        ) from None
    if registered.kind != _REGISTRY_KINDS[str(options.format)]:
        raise SettingsError(
            f"{column}Format is {options.format}, but the subject {subject} has a schema of {registered.kind}",
            f"Set {column}Format to what the schema is.",
        )
    return Source(registered.text, registered.references, registered.schema_id, registry)


def _subject_of_topic(column: str, topics: Sequence[str]) -> str:
    """The subject under which serializers register a topic's schema by default (TopicNameStrategy)."""
    if len(topics) != 1:
        raise SettingsError(
            f"the subject of the {column} is not clear: the query reads {len(topics) or 'a pattern of'} topics",
            f"Set {column}Subject to the subject of the schema that the column is read with.",
        )
    return f"{topics[0]}-{column}"
