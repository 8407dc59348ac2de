"""Records in Avro, CSV, Protobuf and text: right ones, and ones that are broken in the ways of their format."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final, NamedTuple

from tests.spark.formats.avro_samples import written
from tests.spark.formats.registry_server import RegistryServer, framed

from catchment.spark.formats.protobuf.schema import compiled, message_class

AVRO: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "level", "type": "double"},
        {"name": "seen", "type": {"type": "array", "items": {"type": "long", "logicalType": "timestamp-micros"}}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["HEAT", "RAIN"]}},
    ],
}
PROTO: Final = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Reading { string id = 1; google.protobuf.Timestamp at = 2; double level = 3; }
"""
CSV: Final = "id string, at timestamp, level double, people int"
_LONGEST: Final = 2**63 - 1
_YEAR_10000_S: Final = 253_402_300_800
_Reading: Final = message_class(compiled(PROTO, {}), "Reading")


class Samples(NamedTuple):
    """Records of one format: those that pass by their id, and those that are quarantined with the beginning of their reason."""

    right: dict[str, bytes]
    broken: list[tuple[bytes | None, str]]


def avro(now: datetime, count: int) -> Samples:
    """Without frames."""

    def reading(number: int, **other: Any) -> bytes:
        fields = {"id": str(number), "at": _us(now), "level": number / 2, "seen": [0, _us(now)], "kind": "RAIN"}
        return written(AVRO, fields | other)

    right = {str(number): reading(number) for number in range(count)}
    right["nan"] = reading(0, id="nan", level=float("nan"))
    right["inf"] = reading(0, id="inf", level=float("inf"))
    one = reading(0)
    return Samples(
        right,
        [
            (None, "has no value"),
            (b"", "does not decode: a number does not end"),
            (one[:-1], "does not decode: a number does not end"),
            (one[:2], "does not decode"),
            (one + b"\0", "does not decode: bytes are left after the last field"),
            (b'{"id": "0"}', "does not decode"),
            (b"\xff" * 40, "does not decode: a number does not end"),
            (one[:-1] + b"\x08", "does not decode: an enum has no such symbol"),
            (one[:1] + b"\xff" + one[2:], "does not decode"),
            (reading(0, at=_LONGEST), "at is outside the years 1 to 9999"),
            (reading(0, at=-_LONGEST), "at is outside the years 1 to 9999"),
            (reading(0, seen=[0, _LONGEST]), "seen is outside the years 1 to 9999"),
            (reading(0, day=2**31 - 1), "day is outside the years 1 to 9999"),
            (reading(0, at=_us(now) + 10**12), "at is far ahead of the record's own time"),
        ],
    )


def framed_avro(now: datetime, count: int, registry: RegistryServer, subject: str) -> Samples:
    """With the ids of schemas that a registry has, or has not."""
    other = {"type": "record", "name": "Other", "fields": [{"name": "text", "type": "string"}]}
    wider = AVRO | {"fields": [*AVRO["fields"], {"name": "more", "type": "string", "default": ""}]}
    wider_id = registry.register(subject, wider)
    own_id = registry.register(subject, AVRO)
    other_id = registry.register("other", other)
    json_id = registry.register("json", {"type": "object"}, "JSON")
    plain = avro(now, count)
    right = {name: framed(own_id, value) for name, value in plain.right.items()}
    fields = {"id": "wider", "at": _us(now), "level": 1.0, "seen": [], "kind": "HEAT", "more": "x"}
    right["wider"] = framed(wider_id, written(wider, fields))
    one = plain.right["0"]
    return Samples(
        right,
        [
            (one, "does not decode: it does not begin with a zero byte and the id of a schema"),
            (b"\0\0\0", "does not decode: it does not begin with a zero byte and the id of a schema"),
            (framed(own_id, one[:-1]), "does not decode: a number does not end"),
            (framed(own_id, b""), "does not decode: a number does not end"),
            (framed(99, one), "does not decode: the registry has no schema 99"),
            (framed(2**32 - 1, one), "does not decode: the registry has no schema 4294967295"),
            (framed(other_id, written(other, {"text": "x"})), "does not decode: its schema does not resolve"),
            (framed(json_id, b"{}"), f"does not decode: its schema {json_id} is one of JSON, not of Avro"),
        ],
    )


def csv(now: datetime, count: int) -> Samples:
    moment = now.isoformat()
    right = {str(number): f"{number},{moment},{number / 4},{number}".encode() for number in range(count)}
    right |= {'a"b': f'"a""b",{moment},,7\r\n'.encode(), "long": f"long,{moment},{'0' * 200_000}1,".encode()}
    return Samples(
        right,
        [
            (None, "has no value"),
            (b"", "does not decode: the number of fields is 1, not 4"),
            (f"1,{moment}".encode(), "does not decode: the number of fields is 2, not 4"),
            (f"1,{moment},2,3,4".encode(), "does not decode: the number of fields is 5, not 4"),
            (f'"1,{moment},2,3'.encode(), "does not decode: not a row of delimited text"),
            (b"1,yesterday,2,3", "does not decode: at is not a time as in ISO 8601"),
            (f"1,{moment},NaN,3".encode(), "does not decode: level is not a number"),
            (f"1,{moment},1e999,3".encode(), "does not decode: level is beyond what a double can hold"),
            (f"1,{moment},2,{9 * 10**20}".encode(), "does not decode: people does not fit into 32 bits"),
            (f"1,{moment},2,3.0".encode(), "does not decode: people is not a whole number"),
            (b"\xff,,,", "does not decode: byte 0 is not UTF-8"),
            (b"1,,2,3", "has no at"),
            (json.dumps({"id": "1"}).encode(), "does not decode: the number of fields"),
        ],
    )


def protobuf(now: datetime, count: int) -> Samples:
    def reading(name: str, seconds: float, level: float = 1.5) -> bytes:
        made = _Reading(id=name, level=level)
        made.at.seconds = int(seconds)
        written_bytes: bytes = made.SerializeToString()
        return written_bytes

    now_s = now.timestamp()
    right = {str(number): reading(str(number), now_s) for number in range(count)}
    right["nan"] = reading("nan", now_s, float("nan"))
    one = reading("broken", now_s)
    return Samples(
        right,
        [
            (None, "has no value"),
            (b"", "has no at"),
            (one[:-1], "does not decode: it is not a message Reading"),
            (one + b"\x0a\x7f", "does not decode: it is not a message Reading"),
            (one.replace(b"broken", b"brok\xff\xfe"), "does not decode: it is not a message Reading"),
            (b"\x0b" * 50_000, "does not decode: it is not a message Reading"),
            (b'{"id": "0"}', "does not decode: it is not a message Reading"),
            (reading("x", 2**62), "does not decode: a string is not UTF-8, or a time is beyond"),
            (reading("x", _YEAR_10000_S), "at is outside the years 1 to 9999"),
            (reading("x", -(10**12)), "at is outside the years 1 to 9999"),
            (reading("x", now_s + 10_000), "at is far ahead of the record's own time"),
        ],
    )


def text(count: int) -> Samples:
    right = {str(number): str(number).encode() for number in range(count)} | {"": b"", "é\0": "é\0".encode()}
    return Samples(
        right,
        [(None, "has no value"), (b"\xff", "does not decode: byte 0 is not UTF-8"), (b"a\xc3", "does not decode")],
    )


def _us(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000
