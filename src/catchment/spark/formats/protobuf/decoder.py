"""The format `protobuf`: each message parsed by Protobuf's own library, the column built field by field.

Every record is read with the pinned schema, as fields know their numbers. What a frame adds is which message of the writer's
schema it holds: bytes of another message would parse, and give nonsense.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from pyspark.sql.types import DataType

from catchment.client.errors import SettingsError
from catchment.spark.formats.bisection import wrong_rows
from catchment.spark.formats.decoder import Decoded, Undecodable, arrow_type
from catchment.spark.formats.framing import decode_by_schema, refuse_all, unframe
from catchment.spark.formats.payloads import Payloads
from catchment.spark.formats.protobuf import schema as protobuf_schema
from catchment.spark.formats.protobuf.columns import message_column
from catchment.spark.formats.registry import RegisteredSchema, Registry, UnknownSchema


@dataclass(frozen=True)
class ProtobufDecoder:
    """Protobuf. `descriptors` is the base64 of a compiled schema."""

    descriptors: str
    message: str
    with_defaults: bool = False
    framed: bool = False
    schema_id: int | None = None
    registry: Registry | None = None

    @property
    def data_type(self) -> DataType:
        return protobuf_schema.message_type(self.descriptors, self.message)

    def decode(self, payloads: Payloads) -> Decoded:
        if not self.framed:
            return self._column(payloads.rows(), {})
        return decode_by_schema(unframe(payloads), self._decode_written_with)

    def _decode_written_with(self, schema_id: int, payloads: Payloads) -> Decoded:
        try:
            registered = self._registered(schema_id)
        except UnknownSchema as error:
            return refuse_all(payloads, str(error), arrow_type(self.data_type))
        try:
            writer = self._writer(schema_id, registered)
        except SettingsError as error:
            reason = f"its schema {schema_id} cannot be used: {error.message}"
            return refuse_all(payloads, reason, arrow_type(self.data_type))
        rows = payloads.rows()
        errors: dict[int, str] = {}
        for index, row in enumerate(rows):
            if row is None:
                continue
            try:
                path, start = read_message_path(row)
                if writer is not None:
                    self._check_message(writer, path)
                rows[index] = row[start:]
            except Undecodable as error:
                rows[index], errors[index] = None, str(error)
        return self._column(rows, errors)

    def _registered(self, schema_id: int) -> RegisteredSchema | None:
        """What the registry has for another schema than the query's own; None if there is none to ask for."""
        if self.registry is None or schema_id in (self.schema_id, -1):
            return None
        return self.registry.by_id(schema_id)

    def _writer(self, schema_id: int, registered: RegisteredSchema | None) -> str | None:
        """The writer's compiled schema; None if there is no registry to ask for it."""
        if registered is None:
            return self.descriptors if schema_id == self.schema_id else None
        if registered.kind != "PROTOBUF":
            raise SettingsError(f"it is one of {registered.kind}, not of Protobuf")
        return _compiled(registered)

    def _check_message(self, writer: str, path: tuple[int, ...]) -> None:
        found = _message_at(writer, path)
        if found != self.message:
            raise Undecodable(f"it holds the message {found or 'at ' + str(path)}, not {self.message}")

    def _column(self, rows: list[bytes | None], errors: dict[int, str]) -> Decoded:
        message_class = protobuf_schema.message_class(self.descriptors, self.message)
        messages: list[Any] = [None] * len(rows)
        for index, row in enumerate(rows):
            if row is None:
                continue
            try:
                message = message_class.FromString(row)
            except DecodeError:
                errors[index] = f"it is not a message {self.message}"
                continue
            if message.IsInitialized():
                messages[index] = message
            else:
                errors[index] = f"it lacks {', '.join(message.FindInitializationErrors())}"
        data_type = protobuf_schema.message_type(self.descriptors, self.message)

        def build(chosen: list[Any]) -> Any:
            column = message_column(chosen, message_class.DESCRIPTOR, data_type, self.with_defaults)
            column.validate(full=True)
            return column

        try:
            return Decoded(build(messages), errors)
        except pa.ArrowInvalid:
            for wrong, reason in _wrong_messages(messages, build).items():
                messages[wrong], errors[wrong] = None, reason
            return Decoded(build(messages), errors)


def _wrong_messages(messages: list[Any], build: Any) -> dict[int, str]:
    present = np.array([message is not None for message in messages], np.bool_)
    rows = np.arange(len(messages), dtype=np.int64)
    # The rows stand for the messages: each is found again by where its empty payload would begin.
    places = Payloads(np.zeros(0, np.uint8), rows, rows, present)
    return wrong_rows(places, lambda chosen: build([messages[row] for row in chosen.starts.tolist()]))


@lru_cache(maxsize=256)
def _compiled(registered: RegisteredSchema) -> str:
    return protobuf_schema.compiled(registered.text, dict(registered.references))


_message_at = lru_cache(maxsize=256)(protobuf_schema.message_at)


def read_message_path(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of its schema a record holds, as indices from the outermost, and where the message itself begins."""
    count, position = _read_varint(payload, 0)
    if count == 0:
        return (0,), position
    if not 0 < count <= len(payload):
        raise Undecodable("the list of message indices is not one")
    path: list[int] = []
    for _ in range(count):
        index, position = _read_varint(payload, position)
        path.append(index)
    return tuple(path), position


def _read_varint(payload: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(payload) and shift < 35:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise Undecodable("the list of message indices does not end")
