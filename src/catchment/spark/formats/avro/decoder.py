"""The format `avro`: payloads of one schema, or of the schemas that their frames name, as a column of the pinned schema.

The compiled loops decode records by the schema that they were written with. If the reader's schema differs, columns are projected where
that is enough. Otherwise fastavro resolves the records one by one, writes them with the reader's schema, and the same loops decode
them, so that there is one path from Avro to Arrow.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from fastavro.schema import to_parsing_canonical_form
from pyspark.sql.types import DataType

from catchment.client.errors import SettingsError
from catchment.spark.formats.avro import columns as avro_columns
from catchment.spark.formats.avro import schema as avro_schema
from catchment.spark.formats.avro.projection import Projection, projection
from catchment.spark.formats.avro.resolution import Resolver
from catchment.spark.formats.bisection import wrong_rows
from catchment.spark.formats.decoder import Decoded, arrow_type
from catchment.spark.formats.framing import decode_by_schema, refuse_all, unframe
from catchment.spark.formats.payloads import Payloads
from catchment.spark.formats.registry import Registry, UnknownSchema

_LONGEST_REASON: Final = 200


@dataclass(frozen=True)
class AvroSchema:
    """A schema's text and those of the schemas that it refers to, each before those that need it."""

    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class AvroDecoder:
    """Avro. With frames and a registry, writers may have other schemas; with frames alone, their ids are not looked up."""

    schema: AvroSchema
    framed: bool = False
    schema_id: int | None = None
    registry: Registry | None = None

    @property
    def data_type(self) -> DataType:
        return _tree(self.schema).data_type

    def decode(self, payloads: Payloads) -> Decoded:
        if not self.framed:
            return _sound(_tree(self.schema), payloads)
        return decode_by_schema(unframe(payloads), self._decode_written_with)

    def _decode_written_with(self, schema_id: int, payloads: Payloads) -> Decoded:
        if self.registry is None or schema_id in (self.schema_id, -1):
            return _sound(_tree(self.schema), payloads)
        try:
            registered = self.registry.by_id(schema_id)
        except UnknownSchema as error:
            return self._refuse(payloads, str(error))
        try:
            if registered.kind != "AVRO":
                return self._refuse(payloads, f"its schema {schema_id} is one of {registered.kind}, not of Avro")
            writer = AvroSchema(registered.text, tuple(text for _, text in registered.references))
            reason = avro_schema.conflict(_tree(writer), _tree(self.schema))
            if reason is not None:
                return self._refuse(payloads, f"its schema {schema_id} differs from the one of the query: {reason}")
            if _canonical(writer) == _canonical(self.schema):
                return _sound(_tree(self.schema), payloads)
            return resolve(writer, self.schema, payloads)
        except SettingsError as error:
            return self._refuse(payloads, f"its schema {schema_id} cannot be used: {error.message}")

    def _refuse(self, payloads: Payloads, reason: str) -> Decoded:
        return refuse_all(payloads, reason, arrow_type(self.data_type))


@lru_cache(maxsize=256)
def _tree(schema: AvroSchema) -> avro_schema.Node:
    return avro_schema.tree(*avro_schema.parse(schema.text, schema.references))


@lru_cache(maxsize=256)
def _canonical(schema: AvroSchema) -> str:
    """What counts of a schema when it is read with itself, with the types that it refers to written out."""
    parsed, _ = avro_schema.parse(schema.text, schema.references)
    return json.dumps([to_parsing_canonical_form(parsed), *map(str, schema.references)])


def _sound(root: avro_schema.Node, payloads: Payloads) -> Decoded:
    """Decode, and check what the loops do not: that text is UTF-8 and that decimals keep to their precision."""
    decoded = avro_columns.decode(root, payloads)
    try:
        decoded.column.validate(full=True)
        return decoded
    except pa.ArrowInvalid:
        right = payloads.without(np.isin(np.arange(len(payloads)), list(decoded.errors)))
        wrong = wrong_rows(right, lambda rows: avro_columns.decode(root, rows).column.validate(full=True))
        column = avro_columns.decode(root, right.without(np.isin(np.arange(len(payloads)), list(wrong)))).column
        return Decoded(column, {**decoded.errors, **wrong})


@lru_cache(maxsize=256)
def resolver_of(writer: AvroSchema, reader: AvroSchema) -> Resolver:
    return Resolver((writer.text, *writer.references), (reader.text, *reader.references))


@lru_cache(maxsize=256)
def _projection(writer: AvroSchema, reader: AvroSchema) -> Projection | None:
    return projection(_tree(writer), _tree(reader), avro_schema.parse(reader.text, reader.references)[0])


def resolve(writer: AvroSchema, reader: AvroSchema, payloads: Payloads) -> Decoded:
    """Only records that are sound by the writer's schema are resolved: fastavro trusts the lengths that it reads."""
    written = _sound(_tree(writer), payloads)
    plan = _projection(writer, reader)
    if plan is None:
        if not resolver_of(writer, reader).is_sure:
            raise SettingsError(
                "it differs inside, and unions of several numbers, or of text and bytes, are not resolved"
            )
        return resolve_one_by_one(writer, reader, payloads, written.errors)
    defaults = None
    if plan.needs_defaults:
        sound = np.flatnonzero(written.column.is_valid().to_numpy(zero_copy_only=False))[:1]
        if not len(sound):
            return Decoded(pa.nulls(len(payloads), arrow_type(plan.reader.data_type)), written.errors)
        one = resolve_one_by_one(writer, reader, payloads.only(sound), {})
        if one.errors:
            raise SettingsError(f"a default is wrong: {one.errors[0]}")
        defaults = one.column
    return Decoded(plan.apply(written.column, defaults), written.errors)


def resolve_one_by_one(
    writer: AvroSchema, reader: AvroSchema, payloads: Payloads, known_errors: dict[int, str]
) -> Decoded:
    """Rewrite each record that is not known to be wrong with the reader's schema, and decode that."""
    resolver = resolver_of(writer, reader)
    errors = dict(known_errors)
    resolved: list[bytes | None] = []
    for row, payload in enumerate(payloads.rows()):
        resolved.append(None)
        if payload is None or row in errors:
            continue
        try:
            resolved[row] = resolver.rewrite(payload)
        except Exception as error:  # fastavro has no class for all that can be wrong between two schemas.
            # It may hold both schemas.
            reason = str(error)[:_LONGEST_REASON] or type(error).__name__
            errors[row] = f"its schema does not resolve to the one of the query: {reason}"
    decoded = _sound(_tree(reader), Payloads.of(pa.array(resolved, pa.binary())))
    return Decoded(decoded.column, {**errors, **decoded.errors})
