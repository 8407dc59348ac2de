"""Reports in JSON that are broken in every way that we could think of, and ones that only look it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, NamedTuple

SCHEMA: Final = (
    "id string, district string, kind string, at timestamp, seen timestamp, level double, people int, "
    "cost decimal(12,2), marks array<array<int>>, note string"
)
Made = Callable[["Report"], bytes | None]


class Report(NamedTuple):
    """A report as it should be."""

    id: str
    at: datetime
    random: Random

    def fields(self, **other: Any) -> dict[str, Any]:
        """Its fields, some of them others; those that are to be left out are `...`."""
        fields = {
            "id": self.id,
            "district": self.random.choice(("harbour", "hills")),
            "kind": "fire",
            "at": self.at.isoformat(),
            "level": 1.5,
            "people": 3,
            "marks": [[1, 2], []],
        }
        return {name: value for name, value in (fields | other).items() if value is not ...}

    def text(self, **other: Any) -> str:
        return json.dumps(self.fields(**other))

    def value(self, **other: Any) -> bytes:
        return self.text(**other).encode()

    def with_raw(self, name: str, raw: str | bytes) -> bytes:
        """One field in bytes that no serializer would write."""
        raw = raw.encode() if isinstance(raw, str) else raw
        return self.value(**{name: "RAW"}).replace(b'"RAW"', raw)


class Kind(NamedTuple):
    """A way to be broken, and what is to be said of it."""

    make: Made
    reason: str


def field(**other: Any) -> Made:
    return lambda report: report.value(**other)


def raw(name: str, text: str | bytes) -> Made:
    return lambda report: report.with_raw(name, text)


def _ahead(report: Report) -> bytes:
    return report.value(at=(report.at + timedelta(minutes=11)).isoformat())


def _cut(report: Report) -> bytes:
    whole = report.value()
    return whole[: report.random.randrange(1, len(whole))]


def _noise(report: Report) -> bytes:
    return b"\xfe" + report.random.randbytes(40)


def _large(report: Report, size_bytes: int) -> bytes:
    return b"{" + report.random.randbytes(size_bytes // 2).hex().encode()


NOT_JSON: Final = "does not decode: not JSON"
NOT_UTF8: Final = "does not decode: byte"
TOO_DEEP: Final = "does not decode: not JSON that can be read: it is nested too deeply"
NO_TIME: Final = "does not decode: $.at is not a time as in ISO 8601"

BROKEN: Final[dict[str, Kind]] = {
    "empty": Kind(lambda report: b"", NOT_JSON),
    "no value": Kind(lambda report: None, "has no value"),
    "null": Kind(lambda report: b"null", "has no value"),
    "blank": Kind(lambda report: b" \n", NOT_JSON),
    "cut": Kind(_cut, NOT_JSON),
    "noise": Kind(_noise, NOT_UTF8),
    "no JSON": Kind(lambda report: b"<report id='1'/>", NOT_JSON),
    "packed": Kind(lambda report: gzip.compress(report.value()), NOT_UTF8),
    "framed": Kind(lambda report: b"\0\0\0\0\1" + report.value(), NOT_JSON),
    "UTF-16": Kind(lambda report: report.text().encode("utf-16"), NOT_UTF8),
    "BOM": Kind(lambda report: b"\xef\xbb\xbf" + report.value(), NOT_JSON),
    "two": Kind(lambda report: report.value() + b"\n" + report.value(), NOT_JSON),
    "more behind": Kind(lambda report: report.value() + b',"more":1', NOT_JSON),
    "closed too often": Kind(lambda report: report.value() + b"}", NOT_JSON),
    "a way out": Kind(lambda report: report.value() + b']}\n{"v":[' + report.value(), NOT_JSON),
    "NUL behind": Kind(lambda report: report.value() + b"\0", NOT_JSON),
    "other quotes": Kind(lambda report: report.value().replace(b'"', b"'"), NOT_JSON),
    "comment": Kind(raw("people", "/* many */ 3"), NOT_JSON),
    "comma at the end": Kind(lambda report: report.value()[:-1] + b",}", NOT_JSON),
    "Python": Kind(raw("people", "None"), NOT_JSON),
    "leading nought": Kind(raw("people", "007"), NOT_JSON),
    "control character": Kind(raw("note", b'"a\x01b"'), NOT_JSON),
    "not UTF-8": Kind(raw("note", b'"\xff\xfe"'), NOT_UTF8),
    "not UTF-8 in an unknown field": Kind(raw("extra", b'"\xff\xfe"'), NOT_UTF8),
    "half a character": Kind(raw("kind", '"\\ud83d"'), "does not decode: $.kind is no text"),
    "bomb": Kind(lambda report: b"[" * 100_000, TOO_DEEP),
    "bomb in a field": Kind(raw("marks", "[" * 5000 + "]" * 5000), TOO_DEEP),
    "too deep": Kind(field(marks=[[[1]]]), "does not decode: $.marks[][] is an array, not a whole number"),
    "too flat": Kind(field(marks=[1]), "does not decode: $.marks[] is a number, not an array"),
    "an array": Kind(lambda report: b"[" + report.value() + b"]", "does not decode: $ is an array, not an object"),
    "text": Kind(lambda report: b'"fire"', "does not decode: $ is a string, not an object"),
    "a number": Kind(lambda report: b"42", "does not decode: $ is a number, not an object"),
    "number as id": Kind(field(id=7), "does not decode: $.id is a number, not a string"),
    "text as number": Kind(field(people="3"), "does not decode: $.people is a string, not a whole number"),
    "fraction": Kind(field(people=3.0), "does not decode: $.people is a number, not a whole number"),
    "boolean": Kind(field(level=True), "does not decode: $.level is a boolean, not a number"),
    "object": Kind(field(note={"a": 1}), "does not decode: $.note is an object, not a string"),
    "NaN of a whole number": Kind(raw("people", "NaN"), "does not decode: $.people is a number, not a whole number"),
    "large": Kind(field(people=10**30), "does not decode: $.people does not fit into 32 bits"),
    "beyond a double": Kind(raw("level", "1e400"), "does not decode: $.level is beyond what a double can hold"),
    "beyond a decimal": Kind(field(cost=10**12), "does not decode: $.cost is no decimal(12,2)"),
    "exponent": Kind(raw("level", "1e" + "9" * 30), "does not decode: not JSON that can be read: the exponent"),
    "exponent in an unknown field": Kind(
        raw("extra", "1e" + "9" * 30), "does not decode: not JSON that can be read: the exponent"
    ),
    "digits": Kind(raw("people", "9" * 5000), "does not decode: not JSON that can be read: a number has too many"),
    "digits of a double": Kind(raw("level", "9" * 5000), "does not decode: not JSON that can be read: a number has"),
    "time in seconds": Kind(field(at=1_777_636_800), "does not decode: $.at is a number, not a time in a string"),
    "time of another country": Kind(field(at="01/05/2026 12:00"), NO_TIME),
    "no such hour": Kind(field(at="2026-05-01T25:00:00Z"), NO_TIME),
    "no such day": Kind(field(at="2026-02-30T12:00:00Z"), NO_TIME),
    "no time": Kind(field(at=""), NO_TIME),
    "the end of time": Kind(field(at="+294247-01-10T04:00:54.775807Z"), NO_TIME),
    "the beginning of time": Kind(field(at="-290308-12-21T19:59:05.224192Z"), NO_TIME),
    "the year nought": Kind(field(at="0000-05-01T12:00:00Z"), NO_TIME),
    "other time in the year nought": Kind(
        field(seen="0000-05-01T12:00:00Z"), "does not decode: $.seen is not a time as in ISO 8601"
    ),
    "ahead": Kind(_ahead, "at is far ahead of the record's own time"),
    "far ahead": Kind(field(at="9999-12-31T23:59:59.999999Z"), "at is far ahead of the record's own time"),
    "no event time": Kind(field(at=...), "has no at"),
    "null as event time": Kind(field(at=None), "has no at"),
    "no id": Kind(field(id=...), "has no id"),
    "nothing": Kind(lambda report: b"{}", "has no id"),
    "no district": Kind(field(district=...), "failed check: district IS NOT NULL"),
    "no kind": Kind(field(kind=None), "failed check: kind IN ('fire', 'flood')"),
    "wrong kind": Kind(field(kind="party"), "failed check: kind IN ('fire', 'flood')"),
}
LARGE: Final[dict[str, Kind]] = {
    "900 KB": Kind(lambda report: _large(report, 900_000), NOT_JSON),
    "as large as can be": Kind(lambda report: _large(report, 1_048_000), NOT_JSON),
}
"""A few of each are enough."""

ODD: Final[dict[str, Made]] = {
    "twice the same name": lambda report: report.value()[:-1] + b', "people": 4}',
    "several lines": lambda report: json.dumps(report.fields(), indent=2).encode(),
    "escapes": field(note="\u00e9\U0001f525", district="\u6771"),
    "NUL": field(note="a\0b"),
    "NaN": field(level=float("nan")),
    "infinite": field(level=float("-inf")),
    "long": field(note="x" * 5000),
    "unknown fields": field(extra={"a": [1, {"b": None}]}, more=[]),
    "a bomb in an unknown field": raw("extra", "[" * 5000 + "]" * 5000),
    "digits in an unknown field": raw("extra", "9" * 5000),
    "nulls": field(level=None, people=None, marks=None),
    "nulls within": field(marks=[None, [None]]),
    "of year one": field(seen="0001-01-01T00:00:00Z"),
    "of year 9999": field(seen="9999-12-31T23:59:59.999999Z"),
    "another zone": lambda report: report.value(at=(report.at + timedelta(hours=2)).isoformat()[:-6] + "+02:00"),
    "no zone": lambda report: report.value(at=report.at.isoformat()[:-6]),
}
"""What looks broken and is not: it goes on its way."""
ANCIENT: Final = field(at="0001-01-01T00:00:00Z")
"""A time that is one, but long past: late."""

REPAIRS: Final = (
    r"s/^\xEF\xBB\xBF//",
    r's/"people": NaN/"people": null/',
    's/"kind": "party"/"kind": "flood"/',
    r's#"at": "01/05/2026 12:00"#"at": "2026-05-01T12:00:00Z"#',
)
REPAIRED: Final = frozenset({"BOM", "NaN of a whole number", "wrong kind", "time of another country"})


def repair_command() -> str:
    """A program that repairs what can be, and fails for the rest."""
    known = r'^\xEF\xBB\xBF\|"people": NaN\|"kind": "party"\|"at": "01.05.2026 12:00"'
    return f"env LC_ALL=C sed -e '/{known}/!q1' " + " ".join(f"-e '{one}'" for one in REPAIRS)
