"""Spark's own notation of types, `id bigint, tags array<string>`, read without a session.

Spark parses it in the JVM, which the Python processes where a source is planned cannot reach.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import types as spark

from catchment.client.errors import SettingsError

_SIMPLE: Final[dict[str, spark.DataType]] = {
    "boolean": spark.BooleanType(),
    "tinyint": spark.ByteType(),
    "byte": spark.ByteType(),
    "smallint": spark.ShortType(),
    "short": spark.ShortType(),
    "int": spark.IntegerType(),
    "integer": spark.IntegerType(),
    "bigint": spark.LongType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "real": spark.FloatType(),
    "double": spark.DoubleType(),
    "string": spark.StringType(),
    "binary": spark.BinaryType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ltz": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
}
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)*`|\w+|[<>(),:]|$)")
_DECIMALS: Final = ("decimal", "dec", "numeric")


def parse_ddl(text: str) -> spark.DataType:
    """A type, or a list of columns as the struct of them."""
    for parse in (_Parser.whole_type, _Parser.whole_columns):
        try:
            return parse(_Parser(text))
        except _Mistake as mistake:
            reason = str(mistake)
    raise SettingsError(
        f"the schema {text!r} is not one in Spark's notation: {reason}",
        'Write it like "id bigint, name string, tags array<string>", or give a JSON Schema.',
    )


class _Mistake(Exception):
    """Text that is not of the notation."""


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def whole_type(self) -> spark.DataType:
        return self._at_end(self._type())

    def whole_columns(self) -> spark.DataType:
        return self._at_end(self._columns())

    def _at_end(self, data_type: spark.DataType) -> spark.DataType:
        if self._peek():
            raise _Mistake(f"{self._peek()!r} is not expected at character {self._position + 1}")
        return data_type

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            raise _Mistake(f"character {self._position + 1} is not expected")
        return match.group(1)

    def _next(self) -> str:
        token = self._peek()
        match = _TOKEN.match(self._text, self._position)
        self._position = match.end() if match else self._position
        return token

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise _Mistake(f"{found or 'the end'!r} stands where {token!r} is expected")

    def _accept(self, *tokens: str) -> bool:
        if self._peek().lower() not in tokens:
            return False
        self._next()
        return True

    def _columns(self) -> spark.StructType:
        fields = [self._column()]
        while self._accept(","):
            fields.append(self._column())
        return spark.StructType(fields)

    def _column(self) -> spark.StructField:
        """Whether it may be null is not kept: a record that does not decode has only nulls."""
        name = self._next()
        if not re.fullmatch(r"`.*`|\w+", name, re.DOTALL):
            raise _Mistake(f"{name or 'the end'!r} is not the name of a column")
        self._accept(":")
        data_type = self._type()
        if self._accept("not"):
            self._expect_word("null")
        return spark.StructField(name[1:-1].replace("``", "`") if name.startswith("`") else name, data_type)

    def _expect_word(self, word: str) -> None:
        if not self._accept(word):
            raise _Mistake(f"{self._peek() or 'the end'!r} stands where {word!r} is expected")

    def _type(self) -> spark.DataType:
        name = self._next().lower()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in _DECIMALS:
            return self._decimal()
        if name not in ("array", "map", "struct"):
            raise _Mistake(f"{name or 'the end'!r} is not a type that is known here")
        self._expect("<")
        data_type: spark.DataType
        if name == "array":
            data_type = spark.ArrayType(self._type())
        elif name == "map":
            key = self._type()
            self._expect(",")
            data_type = spark.MapType(key, self._type())
        else:
            data_type = self._columns()
        self._expect(">")
        return data_type

    def _decimal(self) -> spark.DataType:
        if not self._accept("("):
            return spark.DecimalType()
        precision, scale = self._number(), 0
        if self._accept(","):
            scale = self._number()
        self._expect(")")
        if not 0 < precision <= 38 or scale > precision:
            raise _Mistake(f"decimal({precision},{scale}) is beyond Spark's 38 digits")
        return spark.DecimalType(precision, scale)

    def _number(self) -> int:
        token = self._next()
        if not token.isdecimal():
            raise _Mistake(f"{token or 'the end'!r} is not a number")
        return int(token)
